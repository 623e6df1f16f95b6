"""Media blocks as parts of a user message's content.

| block      | part          | source                                                                        |
|------------|---------------|-------------------------------------------------------------------------------|
| ImageBlock | `image_url`   | web address, `data:` URL, base64 (as a data URL)                              |
| AudioBlock | `input_audio` | base64 of wav or mp3; a web address must be fetched by the caller             |
| VideoBlock | `video_url`   | as an image, with compatible servers only                                     |
| FileBlock  | `file`        | base64 (as a data URL); a web address must be fetched by the caller           |
"""

from __future__ import annotations

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.message import AudioBlock, Base64Source, FileBlock, FramesSource, ImageBlock, Source, VideoBlock
from agentscope_rx.model.media import MediaBlock, local_path

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def media_part(block: MediaBlock, *, official: bool) -> dict[str, object]:
    """The part for a block; `InvalidInputError` says what to do about one that the server does not take."""
    match block:
        case ImageBlock():
            return {"type": "image_url", "image_url": {"url": _url(block.source)}}
        case AudioBlock():
            return {"type": "input_audio", "input_audio": _audio(block.source)}
        case VideoBlock():
            if official:
                raise InvalidInputError(
                    "OpenAI takes no video. Send some of its frames as ImageBlocks, or use a compatible server that "
                    "takes video_url (base_url=...)."
                )
            if isinstance(block.source, FramesSource):
                raise InvalidInputError("Chat Completions takes a video whole: send its frames as ImageBlocks instead.")
            return {"type": "video_url", "video_url": {"url": _url(block.source)}}
        case FileBlock():
            return {"type": "file", "file": {"filename": block.name or "file", "file_data": _data(block.source)}}


def _url(source: Source) -> str:
    if isinstance(source, Base64Source):
        return f"data:{source.media_type};base64,{source.data}"
    if local_path(source) is not None:
        raise InvalidInputError(f"The file {source.url} was not read before it was formatted; see read_files().")
    return source.url


def _data(source: Source) -> str:
    url = _url(source)
    if not url.startswith("data:"):
        raise InvalidInputError(
            f"A file is sent as data, not as an address ({url[:80]}). Fetch it, and use Base64Source.of(data, "
            "'application/pdf') or a local file."
        )
    return url


def _audio(source: Source) -> dict[str, object]:
    if not isinstance(source, Base64Source):
        url = source.url
        if not url.startswith("data:") or ";base64," not in url:
            raise InvalidInputError(
                f"Audio is sent as data, not as an address ({url[:80]}). Fetch it, and use Base64Source.of(data, "
                "'audio/wav') or a local file."
            )
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        source = Base64Source(media_type.partition(";")[0], data)
    form = _AUDIO_FORMATS.get(source.media_type.partition(";")[0].strip().lower())
    if form is None:
        raise InvalidInputError(f"Audio must be wav or mp3, not {source.media_type}; convert it first.")
    return {"data": source.data, "format": form}
