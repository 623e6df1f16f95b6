"""Media blocks as parts of a message's content, in the form that the server takes.

| block      | part                           | source                                                         |
|------------|--------------------------------|----------------------------------------------------------------|
| ImageBlock | `image_url`                    | web address, `data:` URL, base64 (as a data URL)               |
| AudioBlock | `input_audio`                  | base64 of wav or mp3; a web address if the profile allows it   |
| VideoBlock | `video_url`; `video` of frames | as an image, if the profile allows it                          |
| FileBlock  | `file` or `document_url`       | base64 (as a data URL); a web address if the profile allows it |

Other media are an `InvalidInputError` with advice.
"""

from __future__ import annotations

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import AudioBlock, Base64Source, FileBlock, FramesSource, ImageBlock, Source, VideoBlock
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.wire.media import MediaBlock, address_of

Part = dict[str, object]

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def media_part(block: MediaBlock, profile: Profile) -> Part:
    """The part for a block; `InvalidInputError` with advice for one that the server does not take."""
    match block:
        case ImageBlock():
            return _image(block.source, profile)
        case AudioBlock():
            return {"type": "input_audio", "input_audio": _audio(block.source, profile)}
        case VideoBlock():
            return _video(block, profile)
        case FileBlock():
            return _file(block, profile)


def url_of(source: Source) -> str:
    """A web address or a `data:` URL."""
    if isinstance(source, Base64Source):
        return f"data:{source.media_type};base64,{source.data}"
    return address_of(source)


def data_of(source: Source, kind: str, example: str) -> str:
    """A `data:` URL; `InvalidInputError` for an address."""
    url = url_of(source)
    if not url.startswith("data:"):
        raise InvalidInputError(
            f"{kind} is sent as data, not as an address ({url[:80]}). Fetch it, and use Base64Source.of(data, "
            f"{example!r}) or a local file."
        )
    return url


def _image(source: Source, profile: Profile) -> Part:
    if profile.images is None:
        raise InvalidInputError(f"{profile.title} takes no images. Describe them in text, or use another model.")
    url = url_of(source) if profile.images == "any" else data_of(source, "An image", "image/png")
    return {"type": "image_url", "image_url": {"url": url}}


def _video(block: VideoBlock, profile: Profile) -> Part:
    if not profile.video:
        raise InvalidInputError(
            f"{profile.title} takes no video. Send some of its frames as ImageBlocks, or use a compatible server that "
            "takes video_url (base_url=...)."
        )
    source = block.source
    if not isinstance(source, FramesSource):
        return {"type": "video_url", "video_url": {"url": url_of(source)}}
    if "video_frames" not in profile.quirks:
        raise InvalidInputError(f"{profile.title} takes a video whole: send its frames as ImageBlocks instead.")
    part: Part = {"type": "video", "video": [url_of(frame) for frame in source.frames]}
    return part if block.fps is None else {**part, "fps": block.fps}


def _file(block: FileBlock, profile: Profile) -> Part:
    if profile.files is None:
        raise InvalidInputError(f"{profile.title} takes no files. Send their text, or pages as ImageBlocks.")
    if profile.files == "document":
        name = {"document_name": block.name} if block.name else {}
        return {"type": "document_url", "document_url": url_of(block.source), **name}
    source = block.source
    data = url_of(source) if profile.files == "any" else data_of(source, "A file", "application/pdf")
    return {"type": "file", "file": {"filename": block.name or "file", "file_data": data}}


def _audio(source: Source, profile: Profile) -> object:
    if profile.audio is None:
        raise InvalidInputError(f"{profile.title} takes no audio. Send a transcript as text, or use another model.")
    if profile.audio == "plain":
        return source.data if isinstance(source, Base64Source) else url_of(source)
    if profile.audio == "url":
        url = url_of(source)
        form = _AUDIO_FORMATS.get(_media_type(source))
        return {"data": url, "format": form} if form else {"data": url}
    media_type, _, data = data_of(source, "Audio", "audio/wav").removeprefix("data:").partition(";base64,")
    if not data:
        raise InvalidInputError("Audio in a data: URL must be base64.")
    form = _AUDIO_FORMATS.get(media_type.partition(";")[0].strip().lower())
    if form is None:
        raise InvalidInputError(f"Audio must be wav or mp3, not {media_type}; convert it first.")
    return {"data": data, "format": form}


def _media_type(source: Source) -> str:
    if isinstance(source, Base64Source):
        return source.media_type.partition(";")[0].strip().lower()
    end = address_of(source).partition("?")[0].rpartition(".")[2].lower()
    return {"wav": "audio/wav", "mp3": "audio/mpeg"}.get(end, "")
