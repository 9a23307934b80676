"""Landing: topics become tables of ORC files, each record once."""

from aqueduct.land import without_pandas

without_pandas.keep()
