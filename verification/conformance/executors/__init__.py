"""Judges any executor, in whatever language, by what it says to a service that is scripted.

What an executor must do to be judged. It is started as the command says, and

* connects to `BATON_EXECUTION_ADDRESS`, without a token;
* takes jobs of the type `synthetic`, input and output schema version 1, on the queue `drill`, at least two
  at once;
* works on an input as its model says: `items` steps that take `duration_seconds` together, an output of
  `items`, `attempt` and `padding`, or an error `fail_code` in the attempts that `fail_attempts` names. A
  `note` is carried along unread;
* gives back what is left within 40 s of a SIGTERM, and ends;
* writes nothing but its log.

What it may lack is a `Feature`: checks that need one are left out, and reported as not judged.
"""
