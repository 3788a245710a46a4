"""What an answer must look like, as clients say it, to grammars that engines enforce."""
