//! An executor and nodes in one process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::Json;
use leftfold_events::SessionId;
use leftfold_events::event::{CallSpec, Resolution, Saved};
use leftfold_events::sandbox::Backend;
use leftfold_tools::{Context, Output, RemoteWorkspace, RunKey, SessionOwner, Workspace};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{Address, Client, Options, Server, Unavailable};

fn tls(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/common/tls").join(name)
}

struct Site {
    folder: tempfile::TempDir,
    client: Client,
    node: Workspace,
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let directory = path.join("workspace");
        std::fs::create_dir(&directory).unwrap();
        let options = Options {
            certificate: tls("executor-cert.pem"),
            key: tls("executor-key.pem"),
            token: "the token of this test".into(),
            token_file: path.join("token"),
            worktree: directory.clone(),
            home: false,
            directory,
            state: path.join("state"),
            backend: Backend::Off,
            why: String::new(),
        };
        let server = Server::new(options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
        let at = Address { name: "x".into(), address, roots: Some(tls("executor-ca.pem")) };
        let client = Client::new(at, "the token of this test".into()).unwrap();
        let node = Workspace::new("/nowhere", "/nowhere", path.join("node"));
        Self { folder, client, node }
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("workspace").join(name)).unwrap_or_default()
    }

    fn resolved(&self, command: &str) -> Resolution {
        let input = Json::from_value(&json!({ "command": command }));
        self.client.resolve(&CallSpec { id: "c".into(), name: "bash".into(), input }, &self.node)
    }

    async fn run(&self, key: &RunKey, resolved: &Resolution) -> Output {
        let mut cx = Context::new(Arc::new(self.node.clone()), "c", "");
        cx.run_key = Some(key.clone());
        self.client.run(resolved, &cx).await
    }
}

fn key(epoch: u64, opening: &str, seq: u64) -> RunKey {
    let (family, session) = (SessionId::default(), SessionId::default());
    let (store, opening) = ("store".to_owned(), opening.to_owned());
    RunKey { owner: SessionOwner { store, family, epoch, session, opening }, seq }
}

fn kind(output: &Output) -> String {
    output.meta()["error_kind"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_happens_once_and_its_outcome_stays_until_it_is_acknowledged() {
    let site = Site::new().await;
    let resolved = site.resolved("echo ran >> log; sleep 0.5; echo out");
    assert_eq!(resolved.error, None);
    let key = key(1, "a", 5);
    assert!(site.client.fence(&key.owner, Vec::new()).await.unwrap().is_empty());
    // a node that asks again joins the run
    let (first, second) = tokio::join!(site.run(&key, &resolved), site.run(&key, &resolved));
    assert_eq!((first.output.as_str(), &first), ("out\n", &second));
    assert_eq!(site.run(&key, &resolved).await, first);
    assert_eq!(site.text("log"), "ran\n");
    // another call under this number is none
    let other = site.resolved("echo other >> log");
    assert_eq!(kind(&site.run(&key, &other).await), "executor_refused");
    let next = SessionOwner { opening: "b".into(), ..key.owner.clone() };
    let late = site.client.fence(&next, vec![5, 6]).await.unwrap();
    assert_eq!(late.iter().map(|it| (it.seq, &it.output)).collect::<Vec<_>>(), [(5, &first)]);
    site.client.acknowledge(&RunKey { owner: next.clone(), seq: 5 }).await;
    let next = SessionOwner { opening: "c".into(), ..next };
    assert!(site.client.fence(&next, vec![5]).await.unwrap().is_empty());
    assert_eq!(site.text("log"), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_the_next_owner_does_not_wait_for_is_forgotten() {
    let site = Site::new().await;
    let resolved = site.resolved("echo out");
    let (first, second) = (key(1, "a", 5), key(1, "a", 6));
    site.client.fence(&first.owner, Vec::new()).await.unwrap();
    for key in [&first, &second] {
        site.run(key, &resolved).await;
    }
    // asked once more, as after a lost answer, it changes nothing
    site.client.fence(&first.owner, Vec::new()).await.unwrap();
    for (opening, waiting, known) in
        [("b", vec![5, 6], vec![5, 6]), ("c", vec![6], vec![6]), ("d", vec![5, 6], vec![6])]
    {
        let next = SessionOwner { opening: opening.into(), ..first.owner.clone() };
        let late = site.client.fence(&next, waiting).await.unwrap();
        assert_eq!(late.iter().map(|late| late.seq).collect::<Vec<_>>(), known, "{opening}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_another_has_followed_is_refused() {
    let site = Site::new().await;
    let slow = site.resolved("echo begun >> log; sleep 60; echo lived >> log");
    let (old, new) = (key(1, "a", 5), key(2, "b", 9));
    site.client.fence(&old.owner, Vec::new()).await.unwrap();
    let running = site.run(&old, &slow);
    let followed = async {
        while site.text("log").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(site.client.fence(&new.owner, vec![5]).await.unwrap().is_empty());
    };
    let (ended, ()) = tokio::join!(running, followed);
    assert_eq!(kind(&ended), "executor_fenced");
    assert_eq!(site.text("log"), "begun\n");
    let resolved = site.resolved("echo ran >> log");
    assert!(site.client.fence(&old.owner, Vec::new()).await.unwrap_err().contains("epoch 2"));
    assert_eq!(kind(&site.run(&key(1, "a", 6), &resolved).await), "executor_fenced");
    // within an epoch, only the last opening of the log runs calls
    assert_eq!(kind(&site.run(&key(2, "z", 10), &resolved).await), "executor_fenced");
    assert_eq!(site.text("log"), "begun\n");
    assert!(!site.run(&new, &resolved).await.is_error);
    assert_eq!(site.text("log"), "begun\nran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cancelled_ends() {
    let site = Site::new().await;
    let resolved = site.resolved("echo begun >> log; sleep 60");
    let mut cx = Context::new(Arc::new(site.node.clone()), "c", "");
    cx.run_key = Some(key(1, "a", 5));
    let cancel = cx.cancel.clone();
    let cancelled = async {
        while site.text("log").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel.cancel();
    };
    let start = std::time::Instant::now();
    let (output, ()) = tokio::join!(site.client.run(&resolved, &cx), cancelled);
    assert!(output.is_error && start.elapsed() < Duration::from_secs(30), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_inserted_there_and_stay_out_of_what_comes_back() {
    let mut site = Site::new().await;
    let secret = |name: &str, value: &str| leftfold_events::secrets::Secret {
        name: name.to_owned(),
        value: value.to_owned(),
        usable: true,
    };
    let known = [secret("KEY", "hunter2-hunter2"), secret("OTHER", "not-for-this-call")];
    site.node.secrets = leftfold_events::Secrets::new(known).unwrap();
    let resolved = site.resolved("echo {{secret:KEY}} | tee log");
    assert!(!resolved.input.as_str().contains("hunter2"), "{:?}", resolved.input);
    let output = site.run(&key(1, "a", 5), &resolved).await;
    assert_eq!(site.text("log"), "hunter2-hunter2\n");
    assert_eq!(output.output, "{{secret:KEY}}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_describes_itself_to_those_with_the_token() {
    let site = Site::new().await;
    let workspace = site.folder.path().canonicalize().unwrap().join("workspace");
    std::fs::write(workspace.join("AGENTS.md"), "Use tabs.\n").unwrap();
    let there = site.client.describe().await.unwrap();
    assert_eq!((&there.directory, there.git), (&workspace, false));
    assert_eq!(there.instructions[0].text, "Use tabs.");
    let address = match site.client.describe().await {
        Ok(_) => format!("{:?}", site.client),
        Err(error) => error.to_string(),
    };
    assert!(!address.contains("the token"), "{address}");
    let at = Address { name: "x".into(), address: "127.0.0.1:1".into(), roots: None };
    let nobody = Client::new(at, "t".into()).unwrap().describe().await;
    assert!(matches!(nobody, Err(Unavailable::Unreachable { .. })), "{nobody:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_kept_and_restored_for_the_last_owner_alone() {
    let site = Site::new().await;
    let file = site.folder.path().join("workspace/a");
    let (old, new) = (key(1, "a", 5).owner, key(2, "b", 9).owner);
    site.client.fence(&old, Vec::new()).await.unwrap();
    std::fs::write(&file, "one\n").unwrap();
    let first = site.client.snapshot(&old, None).await.unwrap();
    std::fs::write(&file, "two\n").unwrap();
    let second = site.client.snapshot(&old, Some(&first.tree)).await.unwrap();
    let changed: Vec<_> = second.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(changed, ["a"]);
    // anybody with the token reads them
    let unknown = "0".repeat(40);
    let pairs = [(&*first.tree, &*second.tree), (&*unknown, &*second.tree), ("--help", "-x")];
    let compared = site.client.compare(&pairs).await.unwrap();
    let versions = &compared[0].as_ref().unwrap()[0];
    assert_eq!((compared.len(), &compared[1], &compared[2]), (3, &None, &None));
    let before = versions.before.as_ref().unwrap().object.clone();
    let after = versions.after.as_ref().unwrap().object.clone();
    let names = [before.clone(), unknown.clone(), "--help".to_owned(), after.clone()];
    let contents = site.client.contents(&names).await.unwrap();
    assert_eq!(contents.len(), 2);
    assert_eq!(
        (contents[&before].as_slice(), contents[&after].as_slice()),
        (&b"one\n"[..], &b"two\n"[..])
    );
    site.client.fence(&new, Vec::new()).await.unwrap();
    let saved = |path: &str| [Saved { path: path.into(), tree: first.tree.clone() }];
    let refused = site.client.restore(&old, &second.tree, &saved("a")).await.unwrap_err();
    assert!(refused.message.contains("epoch 2"), "{refused:?}");
    assert!(site.client.snapshot(&old, None).await.is_err());
    assert_eq!(site.text("a"), "two\n");
    let outside = site.client.restore(&new, &second.tree, &saved("../b")).await;
    assert!(outside.is_err() || outside.is_ok_and(|restored| restored.files.is_empty()));
    assert!(site.client.snapshot(&new, Some("--help")).await.is_err());
    for _ in 0..2 {
        let restored = site.client.restore(&new, &second.tree, &saved("a")).await.unwrap();
        assert_eq!((restored.tree.as_str(), restored.files.len()), (first.tree.as_str(), 1));
        assert_eq!(site.text("a"), "one\n");
    }
}
