"""What was seen: calls and answers, the handlers' ledger, the rows of the database."""
