//! The examples of `examples/fleet`: an executor in a container of bubblewrap is started; the files for containers, and those
//! for GitHub Actions in `examples/ci`, are checked by the schemas of their tools, and the commands for containers by the program.

use std::path::PathBuf;
use std::process::Command;

use common::validator::{Body, Validator};
use common::{Live, Site, bash, end, only, program, root, says, script, skipped};
use serde_json::{Value, json};

fn example(name: &str) -> PathBuf {
    root().join("examples/fleet").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(example(name)).unwrap()
}

/// The first JSON value in a text.
fn first_value(text: &str) -> Value {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    values.next().unwrap().unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The arguments of the program in a file for containers.
fn commands(text: &str) -> Vec<Vec<String>> {
    let lists = text.match_indices("command:").chain(text.match_indices("args:"));
    lists
        .map(|(at, word)| serde_json::from_value(first_value(&text[at + word.len()..])).unwrap())
        .collect()
}

#[test]
fn the_files_for_containers_and_workflows_have_the_form_of_their_tools() {
    let Some(validator) = Validator::installed() else { return };
    let body = |name: &str, format, text: String| Body {
        format,
        name: name.to_owned(),
        body: text.into(),
    };
    let (compose, kubernetes) = (text("compose.yaml"), text("kubernetes.yaml"));
    // as JSON: in the YAML of Python, the member `on` is the value true
    let workflow = |name: &str| {
        let text = std::fs::read_to_string(root().join("examples/ci").join(name)).unwrap();
        serde_saphyr::from_str::<Value>(&text).unwrap().to_string()
    };
    let release = workflow("release.yml");
    let refused = validator.refused(&[
        body("compose", "compose", compose.clone()),
        body("kubernetes", "kubernetes", kubernetes.clone()),
        body("leftfold.yml", "workflow", workflow("leftfold.yml")),
        body("release.yml", "workflow", release.clone()),
        body("wrong", "workflow", release.replace("runs-on", "run-on")),
        body("wrong", "compose", compose.replace("pids_limit", "pid_limit")),
        body("wrong", "kubernetes", kubernetes.replace("replicas: 3", "replicas: three")),
        body("wrong", "kubernetes", kubernetes.replace("podSelector", "podsSelector")),
    ]);
    assert!(refused.iter().all(|(name, _)| name == "wrong"), "{refused:#?}");
    assert_eq!(refused.len(), 4);
}

#[test]
fn the_files_for_containers_have_commands_and_settings_of_the_program() {
    let site = Site::bare();
    for (name, count) in [("compose.yaml", 3), ("kubernetes.yaml", 3)] {
        let text = text(name);
        let found = commands(&text);
        assert_eq!(found.len(), count, "{name}: {found:?}");
        for command in found {
            let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
            args.push("--help");
            site.run(&args).ok();
        }
        // the files are where the container has them
        let settings = first_value(&text[text.find("{ \"executors\"").unwrap()..]);
        let said = &settings["executors"]["work"];
        assert!(said["token"].as_str().unwrap().starts_with("{file:/"), "{said}");
        let folder = site.path("");
        std::fs::write(folder.join("token"), "a-token-of-this-test\n").unwrap();
        let mut said = said.clone();
        said["token"] = format!("{{file:{}}}", folder.join("token").display()).into();
        said["ca"] = root().join("tests/common/tls/executor-ca.pem").to_str().into();
        let site = Site::bare().setting("/executors", json!({ "work": said }));
        assert_eq!(site.run(&["config", "executors"]).ok().stderr, "");
    }
}

#[test]
fn an_executor_works_in_a_container_of_bubblewrap() {
    if Command::new("bwrap").arg("--version").output().is_err() {
        return skipped("bubblewrap is not installed: `apt-get install bubblewrap`");
    }
    let other = Site::bare();
    let secret = other.path("secret");
    std::fs::write(&secret, "of this machine\n").unwrap();
    let look = format!("hostname; ls /root; cat {}; echo made > made", secret.display());
    let site = Site::scripted(&script(json!([bash(&look), says("Done.")])));
    let (folder, workspace) = (site.path("executor"), site.path("workspace"));
    std::fs::create_dir(&workspace).unwrap();
    let mut certificate = Command::new("sh");
    certificate.arg(example("certificate.sh")).arg(&folder).args(["localhost", "127.0.0.1"]);
    assert!(certificate.status().unwrap().success());
    let mut command = Command::new("sh");
    command.arg(example("bwrap.sh")).arg(&folder).arg(&workspace).arg("127.0.0.1:0");
    command.env("LEFTFOLD", program());
    let mut executor = Live::start(command);
    let address = loop {
        let line = executor.line().expect("the executor says where it listens");
        if let Some((_, address)) = line.trim().split_once(" listens at ") {
            break address.to_owned();
        }
    };
    let said = json!({
        "address": address,
        "token": format!("{{file:{}}}", folder.join("token").display()),
        "ca": folder.join("ca.pem"),
    });
    let site = site
        .setting("/executors", json!({ "work": said }))
        .setting("/permission", json!({ "bash": "allow", "external_directory": "allow" }));
    let ran = site.run(&["run", "--executor", "work", "--format", "json", "go"]).ok();
    assert_eq!(end(&ran.events())["reason"], "completed", "{ran:?}");
    let events = ran.events();
    let output = only(&events, "tool.finished")["data"]["output"].as_str().unwrap();
    assert!(output.starts_with("workspace\n"), "{output}");
    assert_eq!(output.matches("No such file").count(), 2, "{output}");
    assert_eq!(std::fs::read_to_string(workspace.join("made")).unwrap(), "made\n");
    assert!(folder.join("state").read_dir().unwrap().count() > 0);
}
