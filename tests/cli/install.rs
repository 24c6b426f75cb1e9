//! `packaging/install.sh` with releases that a test makes. `packaging/test` installs the real ones.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Site, root};

/// The installer as a release has it, without a key.
fn installer() -> String {
    std::fs::read_to_string(root().join("packaging/install.sh")).unwrap().replace("@KEY@", "")
}

/// Makes `latest` a release whose archive has these files beside the program and the installer.
fn release(site: &Site, version: &str, files: &[&str]) {
    let name = format!("leftfold-{version}-{}-linux-musl", std::env::consts::ARCH);
    let (folder, downloads) = (site.path(&name), site.path("releases/latest/download"));
    let program = format!("#!/bin/sh\necho leftfold {version}\n");
    let mut listed = vec!["bin/leftfold", "share/leftfold/install.sh", "share/leftfold/files"];
    listed.extend(files);
    for file in &listed {
        let text = match *file {
            "bin/leftfold" => program.clone(),
            "share/leftfold/install.sh" => installer(),
            "share/leftfold/files" => listed.join("\n") + "\n",
            _ => version.to_owned(),
        };
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    std::fs::create_dir_all(&downloads).unwrap();
    let pack = "chmod +x $1/bin/leftfold; rm -f $2/*; tar -czf $2/$1.tar.gz $1; cd $2; sha256sum * >SHA256SUMS";
    let mut sh = Command::new("/bin/sh");
    sh.args(["-ceu", pack, "sh", &name]).arg(&downloads).current_dir(site.path(""));
    assert!(sh.status().unwrap().success());
}

/// Runs a script of the shell where `curl` copies the files below `releases`.
fn sh(site: &Site, script: &Path, args: &[&str]) -> Output {
    let (programs, home) = (site.path("programs"), site.path("home"));
    std::fs::create_dir_all(&programs).unwrap();
    let curl = "#!/bin/sh\nfor last; do :; done\ncp \"$RELEASES${last#https://test}\" \"$5\"\n";
    std::fs::write(programs.join("curl"), curl).unwrap();
    let executable = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(programs.join("curl"), executable).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut sh = Command::new("/bin/sh");
    sh.arg(script).args(args).env_clear().env("PATH", path).env("HOME", home);
    sh.env("RELEASES", site.path("releases")).output().unwrap()
}

#[test]
fn the_installer_installs_upgrades_and_removes_and_refuses_wrong_bytes() {
    let site = Site::bare();
    let installer_file = site.path("install.sh");
    std::fs::write(&installer_file, installer()).unwrap();
    let said = |ran: &Output| {
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
    };
    let prefix = site.path("home/.local");
    release(&site, "1.0.0", &["share/old/file"]);
    let archive = std::fs::read_dir(site.path("releases/latest/download")).unwrap();
    let archive =
        archive.map(|it| it.unwrap().path()).find(|it| it.extension().is_some_and(|it| it == "gz"));
    let archive = archive.unwrap();
    let right = std::fs::read(&archive).unwrap();
    std::fs::write(&archive, [&*right, b"!"].concat()).unwrap();
    let from = ["--from", "https://test"];
    let refused = sh(&site, &installer_file, &from);
    let told = said(&refused);
    assert!(!refused.status.success() && told.contains("nothing was installed"), "{told}");
    assert!(!prefix.exists());
    std::fs::write(&archive, right).unwrap();
    let installed = sh(&site, &installer_file, &from);
    assert!(installed.status.success(), "{}", said(&installed));
    let program = || Command::new(prefix.join("bin/leftfold")).output().unwrap().stdout;
    assert_eq!(program(), b"leftfold 1.0.0\n");
    // the installed copy asks where the first one did, and removes what the next version has no more
    let copy: PathBuf = prefix.join("share/leftfold/install.sh");
    release(&site, "2.0.0", &["share/new/file"]);
    let upgraded = sh(&site, &copy, &[]);
    assert!(upgraded.status.success(), "{}", said(&upgraded));
    assert_eq!(program(), b"leftfold 2.0.0\n");
    assert!(prefix.join("share/new/file").exists() && !prefix.join("share/old").exists());
    let kept = prefix.join("share/leftfold/sessions");
    std::fs::create_dir(&kept).unwrap();
    let removed = sh(&site, &copy, &["--remove"]);
    assert!(removed.status.success(), "{}", said(&removed));
    assert!(!prefix.join("bin").exists() && !prefix.join("share/new").exists() && !copy.exists());
    assert!(kept.is_dir());
}
