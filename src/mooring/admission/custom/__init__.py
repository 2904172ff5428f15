"""Objects of custom kinds in admission: their schema decides what is wrong with them.

- `validation`: a schema compiled into checks; `formats` has the formats of texts.
- `structure`: what holds beside the schema: embedded objects, lists that are sets or maps.
- `rules`: the schema's rules in CEL.
- `strategy`: all of it as the strategy of one version of a kind. Start there.
"""
