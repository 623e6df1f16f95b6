"""Skills: instructions with files, shown to a model by name and description, and read when needed (`SkillsHook`).

They are folders with a SKILL.md, by the open Agent Skills format. Reading one needs the extra `skills`.
"""

from __future__ import annotations

from agentscope_rx.skills.catalog import SkillCatalog, Skills, usual_sources
from agentscope_rx.skills.folders import FolderSkills, UserSkills, WorkspaceSkills
from agentscope_rx.skills.front_matter import FrontMatter, front_matter_text, read_front_matter
from agentscope_rx.skills.packages import PackageSkills
from agentscope_rx.skills.scripts import SkillScripts
from agentscope_rx.skills.skill import Skill, SkillInfo
from agentscope_rx.skills.skills_hook import SkillsHook
from agentscope_rx.skills.source import FoundSkill, GivenSkills, SkillFile, SkillScan, SkillSource
from agentscope_rx.skills.storing import delete_skill, save_skill, skill_of_zip

__all__ = [
    "FolderSkills",
    "FoundSkill",
    "FrontMatter",
    "GivenSkills",
    "PackageSkills",
    "Skill",
    "SkillCatalog",
    "SkillFile",
    "SkillInfo",
    "SkillScan",
    "SkillScripts",
    "SkillSource",
    "Skills",
    "SkillsHook",
    "UserSkills",
    "WorkspaceSkills",
    "delete_skill",
    "front_matter_text",
    "read_front_matter",
    "save_skill",
    "skill_of_zip",
    "usual_sources",
]
