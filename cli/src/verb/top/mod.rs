//! `weft top`: services and workloads with their rates, as they are now.

mod app;
mod columns;
mod format;
mod rows;
mod view;

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};

use app::{After, App};
use columns::Tab;
use rows::Row;

use super::Failure;
use crate::args::{OutputFormat, TopArgs};
use crate::output::{self, Style, Table};
use crate::watch::Watch;

/// Between two questions to an agent.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long is looked where one table is printed.
const ONCE: Duration = Duration::from_secs(2);

/// Shows what happens until `q` is pressed, or prints it once.
///
/// # Errors
/// When there is no agent, or no terminal.
pub(crate) async fn run(args: &TopArgs) -> Result<(), Failure> {
    let json = args.output.output == OutputFormat::Json;
    if args.once || json || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return once(args, json).await;
    }
    let watch = Arc::new(Mutex::new(Watch::new(&args.watched.paths())));
    let news = Arc::new(Notify::new());
    let (told, watched) = (Arc::clone(&news), Arc::clone(&watch));
    let asking = tokio::spawn(async move {
        Watch::run(watched, INTERVAL, || told.notify_one()).await;
    });
    // Restores the terminal also where something panics.
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let shown = show(&mut terminal, args, &watch, &news).await;
    ratatui::restore();
    asking.abort();
    Ok(shown?)
}

async fn show(
    terminal: &mut ratatui::DefaultTerminal,
    args: &TopArgs,
    watch: &Mutex<Watch>,
    news: &Notify,
) -> Result<()> {
    let mut app = App::new(args.window, std::env::var_os("NO_COLOR").is_some());
    let mut keys = keys();
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("SIGHUP")?;
    loop {
        terminal
            .draw(|frame| view::draw(frame, &mut app))
            .context("drawing")?;
        tokio::select! {
            () = news.notified() => app.look(&lock(watch)),
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if app.key(key) == After::Quit {
                        return Ok(());
                    }
                }
                // A new size: drawn again.
                Some(_) => {}
                None => return Ok(()),
            },
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
        }
    }
}

/// What is typed. The thread that waits for it ends with the process.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}

async fn once(args: &TopArgs, json: bool) -> Result<(), Failure> {
    let watch = Arc::new(Mutex::new(Watch::new(&args.watched.paths())));
    let asking = Watch::run(Arc::clone(&watch), INTERVAL, || {});
    // A little more, for the last answer.
    let _ = tokio::time::timeout(ONCE + INTERVAL / 2, asking).await;
    let watch = lock(&watch);
    let states = watch.states();
    if states.iter().all(|state| state.error.is_some()) {
        let errors = states.into_iter().filter_map(|state| state.error);
        return Err(Failure::Told(anyhow::anyhow!(
            errors.collect::<Vec<_>>().join("; ")
        )));
    }
    let between = watch.history().last(args.window);
    if json {
        output::print_json(&Tables {
            seconds: between.seconds,
            services: rows::rows(&between, Tab::Services),
            workloads: rows::rows(&between, Tab::Workloads),
            connections: rows::rows(&between, Tab::Connections),
        })?;
        return Ok(());
    }
    let mut text = String::new();
    for tab in Tab::ALL {
        let mut rows = rows::rows(&between, tab);
        rows.sort_by(|a, b| columns::compare(tab, 0, a, b));
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table(tab, &rows, output::style()));
    }
    output::print(&text)?;
    Ok(())
}

#[derive(Serialize)]
struct Tables {
    /// How long was looked.
    seconds: f64,
    services: Vec<Row>,
    workloads: Vec<Row>,
    connections: Vec<Row>,
}

fn table(tab: Tab, rows: &[Row], style: Style) -> String {
    let columns = tab.columns();
    let titles: Vec<String> = columns
        .iter()
        .map(|c| match c.width {
            0 => tab.title().to_uppercase(),
            _ => format!("#{}", c.title),
        })
        .collect();
    let mut table = Table::with(style, &titles);
    for row in rows {
        table.cells(columns.iter().map(|c| (c.text)(row)).collect());
    }
    table.text()
}

fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
