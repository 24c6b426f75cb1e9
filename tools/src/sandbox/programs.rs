//! The sandbox of programs that settings name: MCP servers, language servers and plugins.
//!
//! They are the user's programs, so they work as without a sandbox as far as that is safe: a server of the user's
//! settings changes all files but those that later run for the user, a server of a project is confined like a command
//! with the network, a language server is confined like a command without network, and a plugin, which acts for the user,
//! is only kept out of Leftfold's data.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use leftfold_events::Sha256;
use leftfold_events::sandbox::{Profile, SandboxOptions, WorktreeAccess};
use leftfold_sandbox as machine;

use super::places::{self, SandboxPlaces, resolved};
use super::{backend, caches, private_folder, project_files, sockets};
use crate::hidden_entries::HiddenEntries;
use crate::tool::Sandbox;
use crate::{UserFolders, Workspace, user_places};

/// The kind of a program that settings name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// An MCP server of the user's settings, or one that an editor supplies.
    Server,
    /// An MCP server of a project's settings.
    ProjectServer,
    /// A language server, which runs build scripts and macros of the project.
    LanguageServer,
    Plugin,
}

/// The sandbox of an MCP server or a plugin, without the facts of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSandbox {
    pub kind: ProgramKind,
    /// The user's settings for commands, with the program's own `show` and `write`.
    pub options: SandboxOptions,
    pub worktree: PathBuf,
    pub user_folders: UserFolders,
    /// Leftfold's data folder.
    pub data: PathBuf,
    /// The user's own files of settings. Keys of other programs may be in them.
    pub settings: Vec<PathBuf>,
    /// Names of variables that the program gets in addition to the usual ones.
    pub environment: Vec<String>,
}

/// The sandbox of a program on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramConfinement {
    pub profile: machine::Profile,
    /// Variables that lead to caches of its own.
    pub variables: Vec<(String, String)>,
}

impl ProgramSandbox {
    /// The sandbox with the facts of this machine. `None`: the program runs without one. Reads the project, so it may
    /// block.
    ///
    /// `named` are paths that the program is started with. They stay visible, unless the program is a project's.
    ///
    /// # Errors
    /// A private folder cannot be made.
    fn confinement(&self, named: &[PathBuf]) -> io::Result<Option<ProgramConfinement>> {
        let Some(backend) = backend(self.options.backend) else { return Ok(None) };
        // a folder that does not exist could not be hidden
        private_folder(&self.data)?;
        match self.kind {
            ProgramKind::Server => Ok(Some(self.of_server(backend, named))),
            ProgramKind::ProjectServer | ProgramKind::LanguageServer => {
                self.of_project_server(named)
            }
            ProgramKind::Plugin => Ok(Some(self.of_plugin(backend, named))),
        }
    }

    /// The sandbox of a program that starts with this command in this folder, with the facts of this machine. `None`:
    /// it runs without one. A plugin sees the folder `store`, which is made if it does not exist yet.
    ///
    /// # Errors
    /// The reason why there is none, in words for people.
    pub async fn of_started(
        &self,
        command: &[String],
        folder: &Path,
        store: Option<&Path>,
    ) -> Result<Option<ProgramConfinement>, String> {
        let words = command.iter().map(PathBuf::from).chain([folder.to_owned()]);
        let words = words.chain(store.map(Path::to_owned));
        let named: Vec<PathBuf> = words.filter(|word| word.is_absolute()).collect();
        let (sandbox, store) = (self.clone(), store.map(Path::to_owned));
        let read_facts = move || {
            if let Some(store) = store.filter(|_| sandbox.options.backend.confines()) {
                make_folder(&store)?;
            }
            sandbox.confinement(&named)
        };
        let facts = tokio::task::spawn_blocking(read_facts).await;
        let why = |error: &dyn std::fmt::Display| {
            format!(
                "it does not start: its sandbox, {}, could not be set up ({error})",
                leftfold_process::OPT_OUT
            )
        };
        facts.map_err(|error| why(&error))?.map_err(|error| why(&error))
    }

    fn of_server(&self, backend: machine::Backend, named: &[PathBuf]) -> ProgramConfinement {
        let files = project_files::walk(&self.worktree);
        let mut places = SandboxPlaces::of_project(&self.worktree, &files);
        places.hide(&self.user_folders, Some(&self.data));
        if backend.has_namespaces() {
            places.hidden.extend(sockets::known());
        } else {
            // Landlock cannot close sockets, and nobody could make new folders beside hidden ones
            let home = self.user_folders.home.as_deref();
            for folder in home.into_iter().flat_map(caches::at_home) {
                // it exists, or the home folder is read-only
                let _ = std::fs::create_dir(folder);
            }
        }
        // servers may lie in the folder of settings, but none changes settings or reads the keys in them
        for folder in places::settings_folders(&self.user_folders) {
            places.hidden.remove(&folder);
            places.read_only.insert(folder);
        }
        places.read_only.extend(user_places::startup(&self.user_folders));
        places.hidden.extend(self.settings.iter().cloned());
        places.hidden.extend(self.options.hide.iter().map(PathBuf::from));
        places.resolve();
        places.close();
        places.make_hooks();
        let shown = [&self.options.show, &self.options.write].into_iter().flatten();
        let shown = shown.map(|path| resolved(Path::new(path)));
        let named = named.iter().map(|path| resolved(path));
        let named = named.filter(|path| path.ancestors().any(|it| places.hidden.contains(it)));
        let opened: Vec<PathBuf> = shown.chain(named).collect();
        places.open_whole(&opened);
        let mut profile = everything(backend);
        profile.write = places.write.into_iter().collect();
        profile.read_only = places.read_only.into_iter().collect();
        profile.hidden = places.hidden.into_iter().collect();
        ProgramConfinement { profile, variables: Vec::new() }
    }

    /// The sandbox of a command, with the network unless it is a language server, and a `/tmp` that the project's servers
    /// share.
    fn of_project_server(&self, named: &[PathBuf]) -> io::Result<Option<ProgramConfinement>> {
        let name = Sha256::digest(self.worktree.as_os_str().as_encoded_bytes()).to_string();
        let own = self.data.join("servers").join(&name[..16]);
        let mut cx = Workspace::new(&self.worktree, &self.worktree, own.join("spill"));
        cx.user_folders = self.user_folders.clone();
        cx.environment.clone_from(&self.environment);
        cx.data = Some(self.data.clone());
        let profile = Profile {
            backend: self.options.backend,
            network: self.kind == ProgramKind::ProjectServer,
            worktree: match self.options.home {
                true => WorktreeAccess::Read,
                false => WorktreeAccess::Write,
            },
            write: self.options.write.clone(),
            shown: Vec::new(),
        };
        let mut options = self.options.clone();
        // the program and its files
        let variables = leftfold_process::environment(&self.environment);
        let hidden = HiddenEntries::new(&self.user_folders, [], &variables);
        let around = named.iter().map(|path| resolved(path));
        let around = around.filter_map(|path| Some(hidden.around(&path)?.to_str()?.to_owned()));
        options.show.extend(around);
        let sandbox = Sandbox { profile, options, env_files: false };
        let Some(mut confinement) = sandbox.confinement(&cx)? else { return Ok(None) };
        let machine::Profile { write, read_only, .. } = &mut confinement.profile;
        let is_shown = |path: &&PathBuf| write.iter().any(|it| path.starts_with(it));
        let named = named.iter().filter(|path| !is_shown(path) && places::is_below_temp(path));
        read_only.extend(named.cloned());
        let text = |(name, path): (String, OsString)| Some((name, path.into_string().ok()?));
        let variables = confinement.variables.into_iter().filter_map(text).collect();
        Ok(Some(ProgramConfinement { profile: confinement.profile, variables }))
    }

    fn of_plugin(&self, backend: machine::Backend, named: &[PathBuf]) -> ProgramConfinement {
        let mut profile = everything(backend);
        profile.shares_processes = true;
        let named = named.iter().filter(|path| path.starts_with(&self.data));
        profile.read_only = named.cloned().collect();
        profile.hidden = vec![self.data.clone()];
        ProgramConfinement { profile, variables: Vec::new() }
    }
}

/// The folders that plugins were shown and that did not exist before.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    private_folder(folder)?;
    MADE.lock().unwrap_or_else(PoisonError::into_inner).push(folder.to_owned());
    Ok(())
}

/// Removes the folders that were made for plugins and that no session has used. Call it when no session is being opened.
pub fn remove_unused_folders() {
    for folder in std::mem::take(&mut *MADE.lock().unwrap_or_else(PoisonError::into_inner)) {
        // one that a session has used is not empty
        let _ = std::fs::remove_dir(folder);
    }
}

/// A profile with the network that lets a program change everything.
fn everything(backend: machine::Backend) -> machine::Profile {
    let mut profile = machine::Profile::new(backend);
    profile.everything = true;
    profile.network = true;
    profile
}

impl SandboxPlaces {
    /// Lets a program that may change everything change these paths as well, with the sockets in them.
    fn open_whole(&mut self, paths: &[PathBuf]) {
        let is_socket =
            |path: &Path| path.metadata().is_ok_and(|found| found.file_type().is_socket());
        for path in paths {
            self.hidden.retain(|it| it != path && !(it.starts_with(path) && is_socket(it)));
            self.write.insert(path.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use leftfold_events::sandbox::Backend;

    use super::*;
    use crate::testing::Site;

    fn sandbox(site: &Site, kind: ProgramKind) -> ProgramSandbox {
        let options = SandboxOptions {
            backend: Backend::Landlock,
            hide: vec![site.outside("hidden").display().to_string()],
            show: vec![site.outside("home/.aws").display().to_string()],
            ..SandboxOptions::default()
        };
        let home = Some(site.outside("home"));
        let config = Some(site.outside("home/.config"));
        ProgramSandbox {
            kind,
            options,
            worktree: site.workspace().worktree,
            user_folders: UserFolders { home, config, ..UserFolders::default() },
            data: site.outside("data"),
            settings: vec![site.outside("home/.config/leftfold/leftfold.json")],
            environment: Vec::new(),
        }
    }

    fn profile(site: &Site, kind: ProgramKind, named: &[PathBuf]) -> machine::Profile {
        sandbox(site, kind).confinement(named).unwrap().unwrap().profile
    }

    #[test]
    fn a_server_of_the_user_changes_everything_but_settings_and_sees_no_keys() {
        let site = Site::new();
        site.file(".git/HEAD", "");
        site.file(".env", "");
        let script = site.outside("home/.config/gh/server.py");
        let profile = profile(&site, ProgramKind::Server, &[script.clone(), site.outside("x")]);
        assert!(profile.everything && profile.network && !profile.shares_processes);
        assert_eq!(profile.temp, None);
        for hidden in ["data", "hidden", "home/.ssh", "home/.config/leftfold/leftfold.json"] {
            assert!(profile.hidden.contains(&site.outside(hidden)), "{hidden}");
        }
        assert!(profile.read_only.contains(&site.outside("home/.config/leftfold")));
        assert!(profile.read_only.contains(&site.workspace().worktree.join(".git/hooks")));
        // its own settings show it, and it is started with it
        assert!(!profile.hidden.contains(&site.outside("home/.aws")));
        assert!(profile.write.contains(&site.outside("home/.aws")));
        assert!(profile.write.contains(&script));
        assert!(!profile.write.contains(&site.outside("x")));
        // programs often read their variables there
        assert!(!profile.hidden.contains(&site.workspace().worktree.join(".env")));
    }

    #[test]
    fn a_shown_folder_comes_with_its_sockets_and_not_with_its_keys() {
        let site = Site::new();
        let folder = site.outside("run");
        fs::create_dir_all(&folder).unwrap();
        let _listener = UnixListener::bind(folder.join("s")).unwrap();
        fs::write(folder.join("key"), "").unwrap();
        let mut places = SandboxPlaces::default();
        places.hidden.extend([folder.clone(), folder.join("s"), folder.join("key")]);
        places.open_whole(std::slice::from_ref(&folder));
        assert_eq!(places.hidden, [folder.join("key")].into());
        assert_eq!(places.write, [folder].into());
    }

    #[test]
    fn a_server_of_a_project_is_confined_like_a_command() {
        let site = Site::new();
        site.file(".env", "");
        let named = [PathBuf::from("/tmp/leftfold-no-such-server"), "/opt/server".into()];
        let language_server = profile(&site, ProgramKind::LanguageServer, &named);
        let profile = profile(&site, ProgramKind::ProjectServer, &named);
        assert!(!profile.everything && profile.network);
        // what it builds sees the same, but reaches nobody
        assert_eq!(language_server.hidden, profile.hidden);
        assert!(!language_server.everything && !language_server.network);
        assert!(profile.hidden.contains(&site.workspace().worktree.join(".env")));
        assert!(profile.hidden.contains(&site.outside("data")));
        assert!(profile.temp.unwrap().starts_with(site.outside("data/servers")));
        assert!(profile.read_only.contains(&named[0]) && !profile.read_only.contains(&named[1]));
    }

    #[test]
    fn a_plugin_sees_everything_but_the_data_folder() {
        let site = Site::new();
        let store = site.outside("data/sessions/S");
        let profile = profile(&site, ProgramKind::Plugin, &[store.clone(), site.outside("x")]);
        assert!(profile.everything && profile.network && profile.shares_processes);
        assert_eq!(profile.hidden, [site.outside("data")]);
        assert_eq!(profile.read_only, [store]);
    }
}
