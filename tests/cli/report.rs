//! `leftfold run --report`: what a turn did, for CI.

use common::{Site, bash, call, says, script};
use serde_json::json;

fn site(answers: serde_json::Value) -> Site {
    Site::scripted(&script(answers))
        .setting("/permission", json!({ "bash": { "*": "allow", "rm *": "deny" } }))
}

fn report(site: &Site, name: &str, code: i32) -> String {
    let file = site.path(name);
    let args = ["run", "--report", file.to_str().unwrap(), "Check <it> & \"go\"\u{1b}[31m"];
    site.run(&args).with(code);
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn the_ending_of_the_file_names_the_format() {
    let answers = || site(json!([bash("echo ran"), says("All is well.")]));
    let markdown = report(&answers(), "report.md", 0);
    assert!(markdown.contains("**Turn: completed**"), "{markdown}");
    let page = report(&answers(), "report.html", 0);
    assert!(page.to_lowercase().starts_with("<!doctype html>") && page.contains("All is well."));
    let junit = report(&answers(), "report.xml", 0);
    assert!(junit.contains("<testsuites name=\"leftfold\" tests=\"2\" failures=\"0\""), "{junit}");
    // a wrong file is refused before anything is paid for
    let site = answers();
    for (file, says) in [("report.pdf", ".xml (JUnit)"), ("no/report.md", "cannot be written")] {
        site.run(&["run", "--report", file, "go"]).with(2).saying(&[says]);
    }
    assert!(site.sessions().is_empty());
}

#[test]
fn a_junit_report_has_the_turn_and_its_calls() {
    let answers = json!([
        bash("echo '<ran> & ]]>'; printf '\\001'"),
        bash("false"),
        bash("rm -r everything"),
        call("read", json!({ "filePath": "none.txt" })),
        says("All is well."),
    ]);
    let junit = report(&site(answers), "report.xml", 0);
    let parsed = roxmltree::Document::parse(&junit).unwrap_or_else(|e| panic!("{e}: {junit}"));
    let suite = parsed.root_element().first_element_child().unwrap();
    assert_eq!(suite.attribute("tests"), Some("5"), "{junit}");
    assert_eq!((suite.attribute("failures"), suite.attribute("skipped")), (Some("0"), Some("1")));
    let cases: Vec<_> = suite.children().filter(|node| node.has_tag_name("testcase")).collect();
    assert_eq!(cases[0].attribute("name"), Some("Check <it> & \"go\"\\x1b[31m"), "{junit}");
    let ends: Vec<(&str, &str)> = cases
        .iter()
        .map(|case| {
            let end = case.first_element_child().unwrap();
            (case.attribute("classname").unwrap(), end.tag_name().name())
        })
        .collect();
    let expected = [
        ("leftfold.turn", "system-out"),
        ("leftfold.bash", "system-out"),
        ("leftfold.bash", "system-out"),
        ("leftfold.bash", "skipped"),
        ("leftfold.read", "system-err"),
    ];
    assert_eq!(ends, expected, "{junit}");
    let output = cases[1].first_element_child().unwrap().text().unwrap();
    assert!(output.starts_with("<ran> & ]]>"), "{output}");
}

#[test]
fn a_turn_that_did_not_complete_fails_and_has_its_report() {
    let site = site(json!([bash("echo ran"), bash("echo again")]));
    let file = site.path("report.xml");
    let file = file.to_str().unwrap();
    site.run(&["run", "--max-steps", "1", "--report", file, "go"]).with(4);
    let junit = std::fs::read_to_string(file).unwrap();
    assert!(junit.contains("<failure type=\"max_steps\""), "{junit}");
    // a turn that is resumed has a report of all of it
    let markdown = site.path("report.md");
    site.run(&["run", "--continue", "--report", markdown.to_str().unwrap(), "More."]);
    let markdown = std::fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("**Turn: max steps**") && markdown.contains("More."), "{markdown}");
}

/// The workflows in `examples/` have the parts that GitHub requires, and their commands have options that exist.
#[test]
fn the_examples_of_workflows_are_some() {
    let site = Site::bare();
    let help = ["run", "export"].map(|name| site.run(&[name, "--help"]).ok().stdout).concat();
    let mut commands = 0;
    let jobs = ["leftfold.yml", "release.yml"].into_iter().flat_map(|name| {
        let text = std::fs::read_to_string(common::root().join("examples/ci").join(name)).unwrap();
        let workflow: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert!(workflow["on"].is_object() && workflow["permissions"].is_object(), "{workflow}");
        workflow["jobs"].as_object().unwrap().clone()
    });
    for (_, job) in jobs {
        assert!(job["runs-on"].is_string(), "{job}");
        for step in job["steps"].as_array().unwrap() {
            assert!(step["uses"].is_string() != step["run"].is_string(), "{step}");
            let script = step["run"].as_str().unwrap_or_default().replace("\\\n", " ");
            // text of others in a script would run
            assert!(!script.contains("${{"), "{script}");
            for line in script.lines().filter(|line| line.contains("leftfold ")) {
                commands += 1;
                let options = line.split(' ').filter(|word| word.starts_with("--"));
                for option in options {
                    assert!(help.contains(option), "{option} in {line}");
                }
            }
        }
    }
    assert!(commands >= 3, "{commands}");
}
