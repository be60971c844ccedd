//! What the screen shows, and what keys do to it.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

use super::columns::{Tab, compare};
use super::rows::{Row, rows};
use crate::watch::{AgentState, Watch};

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Yes.
    Stay,
    /// No.
    Quit,
}

/// All of it.
pub(super) struct App {
    pub(super) tab: Tab,
    /// Column that the rows are sorted by, as seen in all columns of the tab.
    pub(super) sort: usize,
    pub(super) reverse: bool,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    pub(super) monochrome: bool,
    pub(super) window: Duration,
    pub(super) agents: Vec<AgentState>,
    /// What passes the filter, sorted.
    pub(super) rows: Vec<Row>,
    pub(super) table: TableState,
    /// By tab, as they came.
    all: [Vec<Row>; 3],
}

impl App {
    pub(super) fn new(window: Duration, monochrome: bool) -> Self {
        Self {
            tab: Tab::Services,
            sort: 1,
            reverse: false,
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
            monochrome,
            window,
            agents: Vec::new(),
            rows: Vec::new(),
            table: TableState::default(),
            all: Default::default(),
        }
    }

    /// The agents have answered.
    pub(super) fn look(&mut self, watch: &Watch) {
        self.agents = watch.states();
        if !self.paused {
            let between = watch.history().last(self.window);
            self.show(Tab::ALL.map(|tab| rows(&between, tab)));
        }
    }

    /// These are the rows of each tab from now on.
    pub(super) fn show(&mut self, all: [Vec<Row>; 3]) {
        self.all = all;
        self.arrange();
    }

    /// What is selected.
    pub(super) fn selected(&self) -> Option<&Row> {
        self.rows.get(self.table.selected()?)
    }

    fn arrange(&mut self) {
        let selected = self.selected().map(|row| row.name.clone());
        let filter = self.filter.to_lowercase();
        let all = &self.all[self.tab as usize];
        let wanted = all
            .iter()
            .filter(|row| row.name.to_lowercase().contains(&filter));
        self.rows = wanted.cloned().collect();
        let (tab, sort) = (self.tab, self.sort);
        match sort {
            0 => self.rows.sort_by(|a, b| a.name.cmp(&b.name)),
            _ => self.rows.sort_by(|a, b| compare(tab, sort, a, b)),
        }
        if self.reverse {
            self.rows.reverse();
        }
        // The same one stays selected, wherever it is now.
        let place = selected.and_then(|name| self.rows.iter().position(|row| row.name == name));
        self.table.select(place);
    }

    /// Does what a key says.
    pub(super) fn key(&mut self, key: KeyEvent) -> After {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => After::Quit,
                _ => After::Stay,
            };
        }
        if self.typing {
            self.type_filter(key.code);
            return After::Stay;
        }
        if self.help {
            self.help = false;
            return After::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return After::Quit,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('1') => self.go_to(Tab::Services),
            KeyCode::Char('2') => self.go_to(Tab::Workloads),
            KeyCode::Char('3') => self.go_to(Tab::Connections),
            KeyCode::Tab => self.go_to(self.tab.next()),
            KeyCode::BackTab => self.go_to(self.tab.next().next()),
            KeyCode::Char('r') => self.sort_by(self.sort, !self.reverse),
            KeyCode::Char('>' | 's') | KeyCode::Right => self.sort_beside(1),
            KeyCode::Char('<' | 'S') | KeyCode::Left => self.sort_beside(self.columns() - 1),
            KeyCode::Esc => self.set_filter(String::new()),
            code => self.select(code),
        }
        After::Stay
    }

    fn type_filter(&mut self, code: KeyCode) {
        let mut filter = self.filter.clone();
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                filter.clear();
            }
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(c) if filter.len() < 100 => filter.push(c),
            _ => {}
        }
        self.set_filter(filter);
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
    }

    fn columns(&self) -> usize {
        self.tab.columns().len()
    }

    fn sort_beside(&mut self, by: usize) {
        self.sort_by((self.sort + by) % self.columns(), false);
    }

    fn sort_by(&mut self, column: usize, reverse: bool) {
        (self.sort, self.reverse) = (column, reverse);
        self.arrange();
    }

    fn go_to(&mut self, tab: Tab) {
        self.tab = tab;
        self.table.select(None);
        self.arrange();
    }

    fn select(&mut self, code: KeyCode) {
        let last = self.rows.len().saturating_sub(1);
        let now = self.table.selected();
        let place = match code {
            KeyCode::Down | KeyCode::Char('j') => now.map_or(0, |at| (at + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') => now.map_or(0, |at| at.saturating_sub(1)),
            KeyCode::PageDown => now.map_or(0, |at| (at + 10).min(last)),
            KeyCode::PageUp => now.map_or(0, |at| at.saturating_sub(10)),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => return,
        };
        if !self.rows.is_empty() {
            self.table.select(Some(place));
        }
    }
}
