//! The examples of executors: the script runs, and the files for Compose and Kubernetes have the parts that these
//! require. Neither of the two is started.

use std::process::Command;

use common::{Live, Site, bash, end, only, program, root, says, script, skipped};
use serde_json::{Value, json};

fn documents(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("examples/fleet").join(name)).unwrap();
    text.split("\n---\n").map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// The program takes these arguments: it gets as far as reading the token.
fn assert_taken(args: &[String]) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = Site::bare().run(&args);
    let known = ["--token-file", "--workspace"];
    assert!(known.iter().any(|it| ran.stderr.contains(it)), "{ran:?}");
    assert!(!ran.stderr.contains("unexpected argument"), "{ran:?}");
}

#[test]
fn the_file_for_compose_is_whole() {
    let [compose] = documents("compose.yaml").try_into().unwrap();
    let executor = &compose["services"]["executor"];
    let command = texts(&executor["command"]);
    assert_eq!(command[0], "leftfold");
    assert_taken(&command[1..]);
    for volume in texts(&executor["volumes"]) {
        let (name, path) = volume.split_once(':').unwrap();
        assert!(compose["volumes"][name].is_object() && path.starts_with('/'), "{volume}");
    }
    for secret in texts(&executor["secrets"]) {
        assert!(compose["secrets"][&secret]["file"].is_string(), "{secret}");
        assert!(command.iter().any(|it| it.ends_with(&format!("=/run/secrets/{secret}"))));
    }
}

#[test]
fn the_manifest_for_kubernetes_is_whole() {
    let [service, set] = documents("kubernetes.yaml").try_into().unwrap();
    let kinds = [&service, &set].map(|it| (it["apiVersion"].clone(), it["kind"].clone()));
    assert_eq!(
        kinds,
        [("v1", "Service"), ("apps/v1", "StatefulSet")].map(|(a, b)| (json!(a), json!(b)))
    );
    let pod = &set["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(
        (&set["spec"]["selector"]["matchLabels"], &service["spec"]["selector"]),
        (labels, labels)
    );
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    let container = &pod["spec"]["containers"][0];
    assert_taken(&texts(&container["args"]));
    let port = &container["ports"][0];
    assert_eq!(port["containerPort"], service["spec"]["ports"][0]["port"]);
    assert_eq!(port["name"], service["spec"]["ports"][0]["targetPort"]);
    let named = |list: &Value, name: &Value| {
        list.as_array()
            .unwrap()
            .iter()
            .any(|it| it["name"] == *name || it["metadata"]["name"] == *name)
    };
    for mount in container["volumeMounts"].as_array().unwrap() {
        let name = &mount["name"];
        let templates = &set["spec"]["volumeClaimTemplates"];
        assert!(named(&pod["spec"]["volumes"], name) || named(templates, name), "{name}");
    }
}

#[test]
fn the_script_gives_an_executor_its_workspace_alone() {
    let works = Command::new("bwrap")
        .args(["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true"])
        .output();
    if !works.is_ok_and(|ran| ran.status.success()) {
        return skipped("bwrap does not work here");
    }
    let site = Site::scripted(&script(json!([bash("pwd; ls /; echo made > made"), says("Done.")])))
        .setting("/permission", json!({ "bash": "allow", "external_directory": "allow" }));
    let token = "a-token-of-the-executors-tests";
    for folder in ["workspace", "state", "tls"] {
        std::fs::create_dir(site.path(folder)).unwrap();
    }
    std::fs::write(site.path("tls/token"), token).unwrap();
    for name in ["cert.pem", "key.pem"] {
        let from = root().join("tests/common/tls").join(format!("executor-{name}"));
        std::fs::copy(from, site.path("tls").join(name)).unwrap();
    }
    let mut command = Command::new("sh");
    command.arg(root().join("examples/fleet/executor-bwrap.sh"));
    command.env("WORKSPACE", site.path("workspace")).env("STATE", site.path("state"));
    command.env("TLS", site.path("tls")).env("LEFTFOLD", program()).env("LISTEN", "127.0.0.1:0");
    let mut executor = Live::start(command);
    let line = executor.line().unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let ca = root().join("tests/common/tls/executor-ca.pem");
    let said = json!({ "build": { "address": address, "token": token, "ca": ca } });
    let site = site.setting("/executors", said);
    let ran = site.run(&["run", "--executor", "build", "--format", "json", "go"]).ok();
    assert_eq!(end(&ran.events())["reason"], "completed", "{ran:?}");
    let output = only(&ran.events(), "tool.finished")["data"]["output"].to_string();
    assert!(output.starts_with("\"/work\\n") && !output.contains("home"), "{output}");
    assert!(site.path("workspace/made").exists());
}
