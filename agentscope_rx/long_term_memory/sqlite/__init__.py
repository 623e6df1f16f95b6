"""`SqliteLongTermMemory`: facts in one SQLite file, found by words and meaning, distilled by a model if there is one.

| file            | holds                                                                             |
|-----------------|-----------------------------------------------------------------------------------|
| `facts`         | `Fact`, the public form of a row                                                  |
| `database`      | the file: its tables, connections, errors                                         |
| `store`         | writing: add, replace, end, erase, in transactions                                |
| `search`        | reading: ranks by words and by vectors, joined                                    |
| `distill`       | the model's part: facts of messages, and what they change                         |
| `memory`        | the `LongTermMemory` made of these                                                |
"""
