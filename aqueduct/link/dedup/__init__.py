"""Clean topics from raw ones: `run` plans rounds, `task` writes records and ledger in one transaction."""
