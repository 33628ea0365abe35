"""All SQL: tables, transactions, a repository per table, migrations."""
