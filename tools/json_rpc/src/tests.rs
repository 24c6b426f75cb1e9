use std::path::Path;

use leftfold_process::Program;

use super::*;

struct Deaf;

impl Handler for Deaf {
    fn request(&self, _: &str, _: Value, _: Reply) {}

    fn notification(&self, _: &str, _: Value) {}
}

/// The reason why a connection to a shell that runs `script` is over.
async fn why_over(script: &str) -> String {
    let command = ["sh", "-c", script].map(str::to_owned);
    let program = Program {
        name: "test",
        command: &command,
        directory: Path::new("/"),
        passed: &[],
        variables: &[],
        is_guarded: false,
        acts_for_user: false,
        profile: None,
    };
    let protocol = Protocol {
        framing: Framing::ContentLength,
        cancel: "cancel",
        longest: 1_000,
        most_bytes: 100_000,
        queue: 1_000,
        read_limit: Duration::from_secs(10),
    };
    let link = Arc::new(Link::new(program.start().await.unwrap(), protocol, Arc::new(Deaf)));
    while !link.is_over() {
        link.notify("tick", Value::Null);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    link.close().await;
    link.why()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_is_not_named_for_its_closed_input() {
    for (script, why) in [
        ("exec <&-; sleep 0.1", "it has ended"),
        (
            "exec <&-; sleep 0.1; echo nonsense",
            "it has written something else than a message: \"nonsense\"",
        ),
        ("exec <&-; sleep 5", "it has closed its standard input"),
    ] {
        assert_eq!(why_over(script).await, why, "{script}");
    }
}
