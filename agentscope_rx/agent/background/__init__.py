"""Background work: tool calls that go on while the model does, and beyond the end of the run.

    call --items--> `job`: a log of the call's items, which owns the call
                      |--> `promotion`: the items as the call's stage sees them, until it gets a handle instead
                      |--> `feed`: the items in the stream of the run in progress, under a path of their own
                      '--> `jobs`: the end of the call, as a message of the engine for the run in progress, or the next

`hook` holds the policy of an agent and brings the `tools` by which a model lists, reads, waits for and stops its jobs.
"""
