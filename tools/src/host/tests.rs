use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::json;

use super::*;
use crate::testing::{Site, kind};
use crate::{Context, Output, Seen};

/// A host for tests.
#[derive(Debug, Default)]
struct TestHost {
    /// The text that it shows for every file.
    text: Mutex<Option<String>>,
    /// Whether it never answers.
    silent: bool,
    /// Whether it keeps written texts without saving them to disk.
    never_saves: bool,
    output: String,
    exit: Exit,
    killed: Arc<Mutex<usize>>,
}

fn later<T: Send + 'static>(
    silent: bool,
    answer: Result<T, HostError>,
) -> BoxFuture<'static, Result<T, HostError>> {
    Box::pin(async move { if silent { std::future::pending().await } else { answer } })
}

impl Host for TestHost {
    fn read(&self, path: &Path) -> Option<BoxFuture<'static, Result<String, HostError>>> {
        let shown = self.text.lock().unwrap().clone();
        let text = shown.unwrap_or_else(|| std::fs::read_to_string(path).unwrap_or_default());
        Some(later(self.silent, Ok(text)))
    }

    fn write(&self, path: &Path, text: &str) -> Option<BoxFuture<'static, Result<(), HostError>>> {
        if self.never_saves {
            *self.text.lock().unwrap() = Some(text.to_owned());
        } else if !self.silent {
            std::fs::write(path, text).unwrap();
        }
        Some(later(self.silent, Ok(())))
    }

    fn start(&self, _: &HostCommand<'_>) -> Option<Starting> {
        let Self { output, exit, killed, silent, .. } = self;
        let (output, exit) = (output.clone(), exit.clone());
        let terminal = TestTerminal { output, exit, silent: *silent, killed: Arc::clone(killed) };
        Some(Box::pin(async move { Ok(Arc::new(terminal) as Arc<dyn Terminal>) }))
    }
}

struct TestTerminal {
    output: String,
    exit: Exit,
    silent: bool,
    killed: Arc<Mutex<usize>>,
}

impl Terminal for TestTerminal {
    fn output(&self) -> BoxFuture<'static, Result<TerminalOutput, HostError>> {
        later(false, Ok(TerminalOutput { text: self.output.clone(), cut: false }))
    }

    fn ended(&self) -> BoxFuture<'static, Result<Exit, HostError>> {
        later(self.silent, Ok(self.exit.clone()))
    }

    fn kill(&self) -> BoxFuture<'static, Result<(), HostError>> {
        *self.killed.lock().unwrap() += 1;
        later(false, Ok(()))
    }

    fn release(&self) -> BoxFuture<'static, Result<(), HostError>> {
        later(false, Ok(()))
    }
}

fn context(site: &Site, host: TestHost) -> Context {
    let cx = site.context();
    let workspace = crate::Workspace { host: Some(Arc::new(host)), ..site.workspace() };
    Context { workspace: Arc::new(workspace), ..cx }
}

async fn run(site: &Site, cx: &Context, name: &str, input: &serde_json::Value) -> Output {
    crate::run(&site.resolve(name, input), cx.clone()).await
}

/// The files that the model has seen after `output`.
fn seen(output: &Output) -> Seen {
    serde_json::from_value(output.meta()["seen"].clone()).unwrap()
}

#[tokio::test]
async fn a_host_that_is_silent_does_not_keep_a_file_from_being_read() {
    let site = Site::new();
    site.file("f", "one\n");
    let host = TestHost { silent: true, ..TestHost::default() };
    let mut cx = context(&site, host);
    cx.deadline = Some(Instant::now() + MARGIN + Duration::from_millis(50));
    let output = run(&site, &cx, "read", &json!({ "filePath": "f" })).await;
    assert!(output.output.starts_with("1: one\n"), "{output:?}");
}

#[tokio::test]
async fn a_host_that_is_silent_may_have_written() {
    let site = Site::new();
    site.file("f", "one\n");
    let host = TestHost { silent: true, ..TestHost::default() };
    let mut cx = context(&site, host);
    cx.deadline = Some(Instant::now() + MARGIN + Duration::from_millis(50));
    let input = json!({ "filePath": "new", "content": "two\n" });
    let output = run(&site, &cx, "write", &input).await;
    assert_eq!(kind(&output), "client_silent");
    assert!(output.output.contains("written or not"), "{output:?}");
}

#[tokio::test]
async fn what_the_host_keeps_to_itself_is_known_by_its_text() {
    let site = Site::new();
    let path = site.file("f", "one\n");
    let mut cx = context(&site, TestHost { never_saves: true, ..TestHost::default() });
    let output = run(
        &site,
        &cx,
        "edit",
        &json!({ "filePath": "f", "oldString": "one", "newString": "two" }),
    )
    .await;
    assert!(output.output.contains("not the same"), "{output:?}");
    assert_eq!(site.text("f"), "one\n");
    cx.seen = seen(&output);
    let again = json!({ "filePath": "f", "oldString": "two", "newString": "three" });
    assert!(!run(&site, &cx, "edit", &again).await.is_error);
    // the saved text equals the reported one, even if read from disk
    std::fs::write(&path, "two\n").unwrap();
    cx.workspace = Arc::new(site.workspace());
    assert!(!run(&site, &cx, "edit", &again).await.is_error);
    assert_eq!(site.text("f"), "three\n");
    let stale = json!({ "filePath": "f", "oldString": "three", "newString": "four" });
    assert_eq!(kind(&run(&site, &cx, "edit", &stale).await), "changed_on_disk");
}

#[tokio::test]
async fn how_a_command_has_ended_is_told_as_ever() {
    let site = Site::new();
    let exit = |code, signal: Option<&str>| Exit { code, signal: signal.map(str::to_owned) };
    for (exit, expected, error) in [
        (exit(Some(0), None), "a\nb\n", None),
        (exit(Some(2), None), "a\nb\n(exit code 2)", None),
        (exit(None, Some("SIGTERM")), "a\nb\n(killed by signal 15)", Some("killed")),
        (exit(None, None), "does not say how", Some("client_silent")),
    ] {
        let host = TestHost { output: "a\r\nb\r\n".to_owned(), exit, ..TestHost::default() };
        let output = run(&site, &context(&site, host), "bash", &json!({ "command": "x" })).await;
        assert!(output.output.contains(expected), "{output:?}");
        assert_eq!(output.is_error.then(|| kind(&output)).as_deref(), error);
    }
}

#[tokio::test]
async fn a_command_that_is_stopped_is_killed_and_its_output_kept() {
    let site = Site::new();
    let host = TestHost { output: "so far\n".to_owned(), silent: true, ..TestHost::default() };
    let killed = Arc::clone(&host.killed);
    let cx = context(&site, host);
    let stop = cx.cancel.clone();
    let input = json!({ "command": "sleep 1000" });
    let (output, ()) = tokio::join!(run(&site, &cx, "bash", &input), async { stop.cancel() });
    assert_eq!(kind(&output), "cancelled");
    crate::testing::eventually("it is killed", || *killed.lock().unwrap() == 1).await;
}

#[test]
fn the_folder_of_a_file_is_made_before_it_is_handed_over() {
    let site = Site::new();
    let path: PathBuf = site.path("deep/er/f");
    crate::confined::ready(&path, None).unwrap();
    assert!(site.path("deep/er").is_dir() && !path.exists());
}
