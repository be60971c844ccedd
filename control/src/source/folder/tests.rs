//! A folder and all that can happen to it.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_proto::model::Problem;

use super::Folder;
use crate::object::{Object, ObjectRef};
use crate::source::{Event, Events, Source};

const PATIENCE: Duration = Duration::from_secs(20);

/// A watched folder and what its source has told so far.
struct Watched {
    dir: TempDir,
    root: PathBuf,
    events: mpsc::Receiver<Events>,
    pending: VecDeque<Event>,
    objects: BTreeMap<String, Object>,
    problems: BTreeMap<String, Vec<Problem>>,
    told: usize,
    _stop: DropGuard,
}

impl Watched {
    async fn start(files: &[(&str, &[u8])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("manifests");
        fs::create_dir(&root).unwrap();
        for (name, content) in files {
            fs::write(root.join(name), content).unwrap();
        }
        Self::watch(dir, root).await
    }

    async fn watch(dir: TempDir, root: PathBuf) -> Self {
        let drain = CancellationToken::new();
        let (sender, events) = mpsc::channel(16);
        tokio::spawn(Folder::open(&root).unwrap().run(sender, drain.clone()));
        let mut watched = Self {
            dir,
            root,
            events,
            pending: VecDeque::new(),
            objects: BTreeMap::new(),
            problems: BTreeMap::new(),
            told: 0,
            _stop: drain.drop_guard(),
        };
        while watched.take().await {}
        watched
    }

    /// Whether more is to come before the first sync is done.
    async fn take(&mut self) -> bool {
        while self.pending.is_empty() {
            let events = tokio::time::timeout(PATIENCE, self.events.recv()).await;
            let events = events.expect("nothing is told").expect("the source ended");
            self.pending.extend(events);
        }
        self.told += 1;
        match self.pending.pop_front().unwrap() {
            Event::Applied(object) => {
                self.objects.insert(object.reference().to_string(), object);
            }
            Event::Deleted(reference) => self.delete(&reference),
            Event::Problems(origin, list) if list.is_empty() => {
                assert!(
                    self.problems.remove(&origin).is_some(),
                    "{origin:?} had none"
                );
            }
            Event::Problems(origin, list) => {
                self.problems.insert(origin, list);
            }
            Event::Subject(reference, _) => panic!("a folder writes no status of {reference}"),
            Event::Synced => return false,
        }
        true
    }

    fn delete(&mut self, reference: &ObjectRef) {
        let known = self.objects.remove(&reference.to_string());
        assert!(known.is_some(), "{reference} was not there");
    }

    async fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            if tokio::time::timeout(left, self.take()).await.is_err() {
                panic!("not {what}: {:?} {:?}", self.names(), self.problems);
            }
        }
    }

    async fn assert_silent(&mut self) {
        assert!(self.pending.is_empty(), "{:?}", self.pending);
        let event = tokio::time::timeout(Duration::from_millis(300), self.events.recv()).await;
        assert!(event.is_err(), "unexpected: {event:?}");
    }

    fn names(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).collect()
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.root.join(name), content).unwrap();
    }

    fn origin(&self, object: &str) -> &str {
        &self.objects[object].origin
    }

    fn messages(&self) -> String {
        let all = self.problems.values().flatten();
        all.map(|p| format!("{p}\n")).collect()
    }
}

fn namespace(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

fn node(name: &str, zone: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}}}}}\n"
    )
}

#[tokio::test]
async fn tells_what_differs_and_nothing_else() {
    let text = namespace("a") + &namespace("b");
    let mut w = Watched::start(&[("x.yaml", text.as_bytes()), ("notes.txt", b"}{")]).await;
    assert_eq!(w.names(), ["Namespace a", "Namespace b"]);
    assert_eq!(w.origin("Namespace b"), "x.yaml:6");
    let told = w.told;
    w.write("x.yaml", &(text.clone() + &namespace("c")));
    w.until("added", |w| w.names().contains(&"Namespace c"))
        .await;
    assert_eq!(w.told, told + 1);
    w.write("x.yaml", &(text + &namespace("c")));
    w.assert_silent().await;
    fs::remove_file(w.root.join("x.yaml")).unwrap();
    w.until("removed", |w| w.objects.is_empty()).await;
}

#[tokio::test]
async fn follows_editors_that_write_aside_and_rename() {
    let mut w = Watched::start(&[("x.yaml", node("n1", "one").as_bytes())]).await;
    for i in 0..5 {
        let aside = w.root.join(".x.yaml.swp");
        fs::write(&aside, node("n1", &format!("z{i}"))).unwrap();
        fs::rename(&aside, w.root.join("x.yaml")).unwrap();
        let zone = format!("z{i}");
        w.until("renamed", |w| {
            format!("{:?}", w.objects["Node n1"]).contains(&zone)
        })
        .await;
    }
    fs::rename(w.root.join("x.yaml"), w.root.join("x.bak")).unwrap();
    w.until("renamed away", |w| w.objects.is_empty()).await;
}

#[tokio::test]
async fn half_a_file_is_not_the_whole() {
    let (first, second) = (namespace("a"), namespace("b"));
    let mut w = Watched::start(&[("x.yaml", (first.clone() + &second).as_bytes())]).await;
    let mut file = fs::File::create(w.root.join("x.yaml")).unwrap();
    for part in [&first[..20], &first[20..], &second[..15], &second[15..]] {
        file.write_all(part.as_bytes()).unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    drop(file);
    w.assert_silent().await;
}

#[tokio::test]
async fn the_last_good_version_stays() {
    let service = |port: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec: {{clusterIP: 10.0.0.1, ports: [{{port: {port}}}]}}\n"
        )
    };
    let mut w = Watched::start(&[("x.yaml", service("80").as_bytes())]).await;
    let good = w.objects.clone();
    for bad in ["99999", "eighty", "[", "80}, {port: 0"] {
        w.write("x.yaml", &service(bad));
        w.until("reported", |w| !w.problems.is_empty()).await;
        assert_eq!(w.objects, good, "{bad}");
        w.write("x.yaml", &service("80"));
        w.until("mended", |w| w.problems.is_empty()).await;
    }
    w.write("x.yaml", &service("81"));
    w.until("changed", |w| w.objects != good).await;
}

#[tokio::test]
async fn the_first_of_two_files_counts() {
    let mut w = Watched::start(&[
        ("b.yaml", node("n1", "from-b").as_bytes()),
        ("a.yaml", node("n1", "from-a").as_bytes()),
    ])
    .await;
    assert_eq!(w.origin("Node n1"), "a.yaml:2");
    assert!(
        w.messages()
            .contains("b.yaml:2: Node n1: metadata.name: is already defined at a.yaml:2")
    );
    fs::remove_file(w.root.join("a.yaml")).unwrap();
    w.until("replaced", |w| {
        w.origin("Node n1") == "b.yaml:2" && w.problems.is_empty()
    })
    .await;
    w.write("a.yaml", &node("n1", "again"));
    w.until("back", |w| {
        w.origin("Node n1") == "a.yaml:2" && !w.problems.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_goes_and_comes_back() {
    let mut w = Watched::start(&[("x.yaml", namespace("a").as_bytes())]).await;
    let aside = w.dir.path().join("aside");
    fs::rename(&w.root, &aside).unwrap();
    w.until("missed", |w| !w.problems.is_empty()).await;
    assert_eq!(
        w.names(),
        ["Namespace a"],
        "a folder that is gone deletes nothing"
    );
    fs::create_dir(&w.root).unwrap();
    w.write("x.yaml", &(namespace("a") + &namespace("b")));
    w.until("found again", |w| {
        w.names().len() == 2 && w.problems.is_empty()
    })
    .await;
    // And it is watched again: this must not wait for a rescan alone.
    w.write("y.yaml", &namespace("c"));
    w.until("followed", |w| w.names().len() == 3).await;
}

#[tokio::test]
async fn folders_below_and_links() {
    let mut w = Watched::start(&[]).await;
    fs::create_dir_all(w.root.join("team/deep")).unwrap();
    w.write("team/deep/x.yaml", &namespace("a"));
    symlink(&w.root, w.root.join("team/loop")).unwrap();
    symlink("self.yaml", w.root.join("self.yaml")).unwrap();
    symlink("nowhere", w.root.join("broken.yaml")).unwrap();
    // As the mount of a ConfigMap does it.
    fs::create_dir(w.root.join("..2026")).unwrap();
    w.write("..2026/mounted.yaml", &namespace("m"));
    symlink("..2026", w.root.join("..data")).unwrap();
    symlink("..data/mounted.yaml", w.root.join("mounted.yaml")).unwrap();
    w.until("all read", |w| {
        w.names().len() == 2 && w.problems.len() == 2
    })
    .await;
    assert_eq!(w.origin("Namespace a"), "team/deep/x.yaml:2");
    assert_eq!(w.origin("Namespace m"), "mounted.yaml:2");
}

#[tokio::test]
async fn hostile_files_are_reported_and_hurt_nobody() {
    let deep = "[".repeat(100_000);
    let deep_block = (0..2000).fold(String::new(), |text, i| text + &" ".repeat(i) + "a:\n");
    let bomb = (1..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, i| {
        let before = i - 1;
        text + &format!("a{i}: &a{i} [*a{before}, *a{before}, *a{before}, *a{before}]\n")
    });
    let mut endless = "k: ".to_owned();
    endless.push_str(&"x".repeat(5_000_000));
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("deep.yaml", deep.clone().into()),
        ("deep.json", deep.into()),
        ("deep-block.yaml", deep_block.into()),
        ("bomb.yaml", bomb.into()),
        ("binary.yaml", (0..=255).cycle().take(100_000).collect()),
        ("latin1.yaml", b"kind: \xe9\n".to_vec()),
        ("utf16.yaml", b"\xff\xfek\0i\0n\0d\0".to_vec()),
        (
            "tab.yaml",
            b"apiVersion: v1\nkind: Namespace\nmetadata:\n\tname: t\n".to_vec(),
        ),
        ("keys.yaml", b"kind: A\nkind: B\n".to_vec()),
        ("keys.json", br#"{"kind": "A", "kind": "B"}"#.to_vec()),
        ("cut.json", br#"{"kind": "A", "#.to_vec()),
        ("scalar.json", b"1 2 3".to_vec()),
        ("endless.yaml", endless.into()),
        ("nul.yaml", vec![0; 1000]),
    ];
    let mut files: Vec<(&str, &[u8])> = files.iter().map(|(n, c)| (*n, c.as_slice())).collect();
    let (good, empty) = (namespace("good"), "\u{feff}# nothing\n---\n---\n...\n");
    files.push(("good.yaml", good.as_bytes()));
    files.push(("empty.yaml", empty.as_bytes()));
    files.push(("windows.yaml", b"\xef\xbb\xbf---\r\napiVersion: v1\r\nkind: Namespace\r\nmetadata:\r\n  name: win\r\n---\r\napiVersion: v1\r\nkind: Namespace\r\nmetadata: {name: dos}\r\n"));
    let start = Instant::now();
    let w = Watched::start(&files).await;
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(
        w.names(),
        ["Namespace dos", "Namespace good", "Namespace win"]
    );
    let reported: Vec<&str> = w.problems.keys().map(String::as_str).collect();
    assert_eq!(
        reported,
        [
            "binary.yaml",
            "bomb.yaml",
            "cut.json",
            "deep-block.yaml",
            "deep.json",
            "deep.yaml",
            "endless.yaml",
            "keys.json",
            "keys.yaml",
            "latin1.yaml",
            "nul.yaml",
            "scalar.json",
            "tab.yaml",
            "utf16.yaml",
        ]
    );
    assert!(w.messages().lines().all(|l| l.len() < 1000));
    assert!(w.messages().contains("tab.yaml:4"), "{}", w.messages());
}

#[tokio::test]
async fn files_that_cannot_be_read() {
    let mut w = Watched::start(&[]).await;
    let big = fs::File::create(w.root.join("big.yaml")).unwrap();
    big.set_len(65 << 20).unwrap();
    drop(big);
    let fifo = w.root.join("fifo.yaml");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    w.write("good.yaml", &namespace("good"));
    w.until("all seen", |w| {
        w.names().len() == 1 && w.problems.len() == 2
    })
    .await;
    assert!(w.messages().contains("split it"), "{}", w.messages());
    assert!(
        w.messages().contains("not a regular file"),
        "{}",
        w.messages()
    );
}

#[test]
fn a_missing_folder_is_an_error_that_says_what_to_do() {
    let error = Folder::open("/nonexistent/folder").unwrap_err().to_string();
    assert!(
        error.contains("/nonexistent/folder") && error.contains("give a folder"),
        "{error}"
    );
}
