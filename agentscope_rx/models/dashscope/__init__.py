"""DashScope (Alibaba Cloud Model Studio) by its own wire format: the text and the multimodal endpoint."""
