//! A workspace beside an executor: what a turn configuration takes from there instead of from this machine.

use std::sync::Arc;

use leftfold_events::sandbox::SandboxOptions;
use leftfold_executor::{Client, Described, InstructionFile, ListedSkill};
use leftfold_tools::RemoteWorkspace;
use leftfold_tools::instructions::{self, Instructions};
use leftfold_tools::skills::Skill;

/// The most files and skills of a workspace that count, and the most problems that people see.
const MAX_FILES: usize = 500;
const MAX_PROBLEMS: usize = 20;
/// The most characters of a skill's description.
const MAX_DESCRIPTION: usize = 1_024;

/// An executor, and what it says of its workspace.
#[derive(Clone, Debug)]
pub struct Workplace {
    pub client: Arc<Client>,
    pub there: Described,
}

impl Workplace {
    pub(crate) fn remote(&self) -> Arc<dyn RemoteWorkspace> {
        Arc::clone(&self.client) as Arc<dyn RemoteWorkspace>
    }

    /// The project's instructions that the executor has found. `is_readable` says by path below the worktree whether the
    /// rules let a model read a file without a question.
    pub(crate) fn instructions(&self, is_readable: &dyn Fn(&str) -> bool) -> Vec<Instructions> {
        let files = self.there.instructions.iter().take(MAX_FILES);
        let readable = files.filter(|file| {
            let inside = file.path.strip_prefix(&self.there.worktree);
            inside.is_ok_and(|inside| is_readable(&inside.to_string_lossy()))
        });
        let clipped = readable.map(|InstructionFile { source, path, text, line, cut }| {
            let most = instructions::MAX_BYTES.min(text.len());
            let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            Instructions {
                source: source.clone(),
                path: Some(path.clone()),
                text: text[..end].to_owned(),
                line: *line,
                cut: *cut || end < text.len(),
            }
        });
        clipped.filter(|file| !file.text.is_empty()).collect()
    }

    pub(crate) fn skills(&self) -> Vec<Skill> {
        let listed = self.there.skills.iter().take(MAX_FILES);
        let skill = |skill: &ListedSkill| Skill {
            name: skill.name.clone(),
            description: skill.description.chars().take(MAX_DESCRIPTION).collect(),
            path: skill.path.clone(),
            place: skill.path.clone(),
        };
        listed.map(skill).collect()
    }

    /// The parts of the project that the executor leaves out, for people.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.there.problems.iter().take(MAX_PROBLEMS).cloned().collect()
    }

    /// The sandbox that `own` settings want, with the means that the executor has.
    pub(crate) fn sandbox(&self, own: SandboxOptions) -> SandboxOptions {
        let Described { backend, why, home, .. } = &self.there;
        SandboxOptions { backend: *backend, why: why.clone(), home: *home, ..own }
    }
}
