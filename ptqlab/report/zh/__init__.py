"""Messages in Chinese: they are made in English where they arise, stay English in files, and are put into Chinese here
when they are shown.

Each module holds the pairs of one part of ptqlab, in the order in which the messages stand there. The holes of a pair
have the same names on both sides; one whose name begins with `_` (the s of a plural) may be left out in Chinese.
`{name|word}` translates a single word by `words.WORDS`, `{name|or}` the "or" between names, and `{name|any}` takes
what others say, such as onnxruntime, even where the pattern has few letters of its own.
tests/report/test_translations.py tells what lacks.
"""
from ptqlab.report.zh.table import PAIRS, pairs_elsewhere, translate
from ptqlab.report.zh.words import WORDS

__all__ = ["PAIRS", "WORDS", "pairs_elsewhere", "translate"]
