"""A hub: members hear what each of them says; see `pipeline.hub.msg_hub`."""
