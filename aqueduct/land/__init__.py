"""Landing: topics become tables of ORC files, each record once."""
