"""English words that requests and questions are made of, whatever they are about, and how little they weigh.

A store knows how rare a word is among its own memories. In a young memory "please" is as rare as "Bergen", and in a
memory of short tasks the words of asking are rarer than those of the tasks. So these words weigh little everywhere.
"""

from pentad.shared.digests.wording import FUNCTION_WORDS

COMMON_WEIGHT = 0.5
"""Weight of a common word in a question; other words weigh 1."""
COMMON_WORDS = FUNCTION_WORDS | frozenset(
    """
    able accord add advice advise advised allow answer answered answers approach approaches aspect aspects
    available based become certain check common complete consider considered considering consist continue
    conversation conversations correct course create current currently decide describe described detail details
    discuss discussed during each early easy eight end ensure entire especially every exactly explain explained
    explanation five focus follow following four full general generally give given gives good help helped
    helpful helps important include included including information instead involve item items kindly large let
    line list listed long main main manage matter mention mentioned mentions message method nine number option
    options order organize overall part particular parts piece point points prefer present previous previously
    provide provided purpose quick quickly recall recent recently recommend recommended relate related remember
    remind reply request required response result results second send session sessions seven short show showed
    shown similar simple simply six small specific specifically start started state step steps subject suggested
    suggestion suggestions summarise summarize summary task tasks ten third three throughout together topic
    topics total toward type types understand user users various ways went whenever wherever word words write
    """.split()
)
