//! The sample day's reference tables: aliases, domains and segment metadata.

use super::events::{days_from, segment_number, what};
use super::line::Line;
use super::random::{Random, at};
use super::words::{CONCEPTS, ID_TAGS, TAGS, WORKSPACES};

/// What the rows of a day's reference tables have in common.
pub(super) struct Reference {
    pub(super) date: time::Date,
    pub(super) seed: u64,
    /// How many rows of `aliases` the day has.
    pub(super) aliases: u64,
    /// How many events the day has, which tells how many users there are.
    pub(super) events: u64,
}

impl Reference {
    /// One id of a user in another system. A user can have several, and several of one tag.
    pub(super) fn write_alias(&self, line: &mut Line, row: u64) {
        let day = u64::from(self.date.to_julian_day().unsigned_abs());
        let mut random = Random::of(self.seed, what::ALIAS, row ^ (day << 40));
        let even = u128::from(row) * 86_400_000 / u128::from(self.aliases.max(1));
        let millisecond = (u64::try_from(even).unwrap_or(0) + random.below(1000)).min(86_399_999);
        let tag = random.pick(&ID_TAGS);
        line.begin(false);
        line.key("time").instant(self.date, millisecond);
        line.key("user_id").uuid(Random::of(self.seed, what::USER_ID, random.below(self.events / 6 + 1)));
        line.key("tag").text(tag);
        match tag {
            "email_sha256" => line.key("alias").hex(random.clone(), 64),
            "appnexus" => line.key("alias").text(&random.next().to_string()),
            "ga" => {
                let (client, first_visit) = (random.below(2_000_000_000), 1_600_000_000 + random.below(160_000_000));
                line.key("alias").text(&format!("GA1.2.{client}.{first_visit}"));
            }
            _ => line.key("alias").hex(random.clone(), 40),
        }
        line.key("priority").number(random.skewed(4));
        if random.chance(400) {
            line.key("expiry").null();
        } else {
            let days = 1 + random.below(364).cast_signed();
            line.key("expiry").instant(days_from(self.date, days), 0);
        }
    }

    /// How many domains all workspaces have together.
    pub(super) fn domains() -> u64 {
        WORKSPACES.iter().map(|workspace| u64::try_from(workspace.domains.len()).unwrap_or(0)).sum()
    }

    /// One domain and the workspace that it belongs to.
    pub(super) fn write_domain(&self, line: &mut Line, row: u64) {
        let mut sites = WORKSPACES
            .iter()
            .zip(0..)
            .flat_map(|(workspace, number)| workspace.domains.iter().map(move |domain| (*domain, workspace, number)));
        let Some((domain, workspace, number)) = sites.nth(usize::try_from(row).unwrap_or(usize::MAX)) else {
            return;
        };
        line.begin(workspace.escapes);
        line.key("domain").text(domain);
        line.key("workspace_id").uuid(Random::of(self.seed, what::WORKSPACE_ID, number));
        line.key("workspace_name").text(workspace.name);
    }

    /// One segment. Nothing about it changes from day to day but what was updated.
    pub(super) fn write_segment(&self, line: &mut Line, row: u64) {
        let mut random = Random::of(self.seed, what::SEGMENT, row);
        let workspace = random.below(5);
        let concept = random.pick(&CONCEPTS);
        line.begin(false);
        line.key("id").uuid(random.clone());
        line.key("number").number(segment_number(row));
        line.key("name").text_of(&[at(&WORKSPACES, workspace).name, " › ", concept, " ", &row.to_string()]);
        line.key("tags").open_list();
        for _ in 0..random.below(4) {
            line.item().text(random.pick(&TAGS));
        }
        line.close_list();
        if random.chance(500) {
            line.key("description").null();
        } else {
            line.key("description").text_of(&["Readers of “", concept, "”, last 30 days\n(at least 2 views)"]);
        }
        line.key("state").text(random.pick(&["active", "active", "active", "paused"]));
        line.key("workspace_id").uuid(Random::of(self.seed, what::WORKSPACE_ID, workspace));
        let age = random.below(900).cast_signed();
        line.key("created_at").instant(days_from(self.date, -age), random.below(86_400) * 1000);
        line.key("updated_at").instant(days_from(self.date, -(age / 3)), random.below(86_400_000));
    }
}
