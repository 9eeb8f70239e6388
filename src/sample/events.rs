//! The sample day's events: what a reader's page views, videos, adverts and forms look like when the platform stages them.

use super::line::Line;
use super::properties::Article;
use super::random::{Random, at};
use super::words::{DEVICES, PLACES, PROVIDERS, REFERRERS, WORKSPACES, Workspace};

/// What a generator is for, so that user 3 and article 3 have nothing in common.
pub(super) mod what {
    pub(in crate::sample) const DAY: u64 = 1;
    pub(in crate::sample) const EVENT_ID: u64 = 2;
    pub(in crate::sample) const USER: u64 = 3;
    pub(in crate::sample) const USER_ID: u64 = 4;
    pub(in crate::sample) const SESSION_ID: u64 = 5;
    pub(in crate::sample) const VIEW_ID: u64 = 6;
    pub(in crate::sample) const ARTICLE: u64 = 7;
    pub(in crate::sample) const WORKSPACE_ID: u64 = 8;
    pub(in crate::sample) const ALIAS: u64 = 9;
    pub(in crate::sample) const SEGMENT: u64 = 10;
    pub(in crate::sample) const VIDEO: u64 = 11;
    pub(in crate::sample) const COHORT: u64 = 12;
}

/// The event types, with how many of a thousand events are of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Pageview,
    PageviewEngagement,
    PageviewComplete,
    Videoview,
    VideoCompletion,
    VideoAdView,
    SlotViewable,
    SlotClicked,
    LinkClick,
    FormSubmission,
    SegmentEntry,
    PaywallShown,
}

pub(super) const KINDS: [(Kind, &str, u64); 12] = [
    (Kind::Pageview, "Pageview", 400),
    (Kind::PageviewEngagement, "PageviewEngagement", 210),
    (Kind::PageviewComplete, "PageviewComplete", 130),
    (Kind::Videoview, "Videoview", 30),
    (Kind::VideoCompletion, "VideoCompletion", 15),
    (Kind::VideoAdView, "VideoAdView", 20),
    (Kind::SlotViewable, "SlotViewable", 100),
    (Kind::SlotClicked, "SlotClicked", 8),
    (Kind::LinkClick, "LinkClick", 40),
    (Kind::FormSubmission, "FormSubmission", 5),
    (Kind::SegmentEntry, "SegmentEntry", 35),
    (Kind::PaywallShown, "PaywallShown", 7),
];

/// How many of the latest views go on at a time; later events of the day belong to one of them.
const OPEN_VIEWS: usize = 256;

/// A reader on a page, to which the events after the page view refer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct View {
    pub(super) number: u64,
    pub(super) user: u64,
    pub(super) session: u64,
    pub(super) article: u64,
    pub(super) workspace: u64,
    pub(super) device: u64,
    pub(super) referrer: &'static str,
}

/// Writes the day's events one after the other.
///
/// Event `n` depends on the date, the seed, the numbers of events and segments, and `n`; never on how the day is cut into objects.
pub(super) struct Events {
    pub(super) date: time::Date,
    pub(super) seed: u64,
    count: u64,
    pub(super) segments: u64,
    pub(super) random: Random,
    written: u64,
    views: Vec<View>,
}

impl Events {
    /// A day of `count` events whose readers are in segments out of `segments` known ones.
    pub(super) fn new(date: time::Date, seed: u64, count: u64, segments: u64) -> Self {
        let day = u64::from(date.to_julian_day().unsigned_abs());
        let random = Random::of(seed, what::DAY, day);
        Self { date, seed, count, segments, random, written: 0, views: Vec::with_capacity(OPEN_VIEWS) }
    }

    /// Writes the next event and says its type's name.
    pub(super) fn write(&mut self, line: &mut Line) -> &'static str {
        let number = self.written;
        self.written += 1;
        let (kind, name) = self.kind(number);
        let view = self.view(kind, number);
        let workspace = at(&WORKSPACES, view.workspace);
        let (client, ..) = at(&DEVICES, view.device);

        line.begin(workspace.escapes);
        line.key("event_name").text(name);
        line.key("time").instant(self.date, self.millisecond(number));
        line.key("event_id").uuid(self.of_day(what::EVENT_ID, number));
        line.key("organization_id").text("lantern-group");
        line.key("workspace_id").uuid(Random::of(self.seed, what::WORKSPACE_ID, view.workspace));
        line.key("user_id").uuid(Random::of(self.seed, what::USER_ID, view.user));
        line.key("session_id").uuid(self.of_day(what::SESSION_ID, view.session));
        match client {
            "amp" => line.key("view_id").null(),
            _ => line.key("view_id").uuid(self.of_day(what::VIEW_ID, view.number)),
        }
        self.write_audiences(line, view.user);
        line.key("properties").open();
        self.write_client(line, &view, &workspace);
        if has_origin(kind) {
            self.write_origin(line, view.user);
        }
        self.write_own(line, kind, &view, &workspace);
        line.close();
        name
    }

    /// A generator for something that belongs to this day alone.
    fn of_day(&self, what: u64, index: u64) -> Random {
        let day = u64::from(self.date.to_julian_day().unsigned_abs());
        Random::of(self.seed, what, index ^ (day << 40))
    }

    /// The type of the next event: first each type once, so that the shortest day has them all, then by their shares.
    fn kind(&mut self, number: u64) -> (Kind, &'static str) {
        if number < u64::try_from(KINDS.len()).unwrap_or(0) {
            let (kind, name, _) = at(&KINDS, number);
            return (kind, name);
        }
        let mut rest = self.random.below(1000);
        for (kind, name, share) in KINDS {
            if rest < share {
                return (kind, name);
            }
            rest -= share;
        }
        (Kind::Pageview, "Pageview")
    }

    /// The view that the next event is about: a new one for a page view, else one of those that are open.
    fn view(&mut self, kind: Kind, number: u64) -> View {
        let earlier: View = self.random.pick(&self.views);
        if kind != Kind::Pageview {
            return earlier;
        }
        let goes_on = !self.views.is_empty() && self.random.chance(550);
        let mut view = earlier;
        if goes_on {
            view.referrer = "self";
        } else {
            view.user = self.random.below(self.count / 6 + 1);
            view.session = number;
            let mut user = Random::of(self.seed, what::USER, view.user);
            view.device = user.next();
            let favourite = user.skewed(5);
            view.workspace = if self.random.chance(900) { favourite } else { self.random.below(5) };
            view.referrer = self.random.pick(&REFERRERS);
        }
        view.number = number;
        view.article = self.random.skewed(4000);
        if self.views.len() < OPEN_VIEWS {
            self.views.push(view);
        } else {
            let place = usize::try_from(self.random.below(256)).unwrap_or(0);
            if let Some(open) = self.views.get_mut(place) {
                *open = view;
            }
        }
        view
    }

    /// When the event came: the day is filled evenly and in order, but for delays of up to 20 seconds.
    fn millisecond(&mut self, number: u64) -> u64 {
        let even = u128::from(number) * 86_400_000 / u128::from(self.count.max(1));
        let delayed = u64::try_from(even).unwrap_or(0) + self.random.below(20_000);
        delayed.min(86_399_999)
    }

    fn write_audiences(&self, line: &mut Line, user: u64) {
        let mut random = Random::of(self.seed, what::USER, user ^ (1 << 60));
        line.key("segments").open_list();
        // Some readers are in a few segments, some in many; new ones are in none.
        let gap = 30 + random.skewed(200);
        let mut segment = if random.chance(60) { self.segments } else { random.below(gap) };
        while segment < self.segments {
            line.item().number(segment_number(segment));
            segment += 1 + random.below(gap);
        }
        line.close_list();
        if random.chance(30) {
            line.key("cohorts").null();
            return;
        }
        line.key("cohorts").open_list();
        for _ in 0..random.below(4) {
            line.item().hex(Random::of(self.seed, what::COHORT, random.skewed(200)), 8);
        }
        line.close_list();
    }

    fn write_client(&self, line: &mut Line, view: &View, workspace: &Workspace) {
        let (kind, user_agent, width, height) = at(&DEVICES, view.device);
        let article = Article::of(self.seed, view, workspace);
        line.key("client").open();
        line.key("type").text(kind);
        line.key("url").text_of(&["https://", article.domain, "/", article.section, "/", &article.id]);
        line.key("domain").text(article.domain);
        line.key("title").text_of(&article.title_with(workspace));
        match view.referrer {
            "self" => line.key("referrer").text_of(&["https://", article.domain, "/"]),
            referrer => line.key("referrer").text(referrer),
        }
        line.key("user_agent").text(user_agent);
        line.key("viewport").text_of(&[&width.to_string(), "x", &height.to_string()]);
        line.close();
    }

    /// Place and network, each left out where the platform could not tell.
    fn write_origin(&self, line: &mut Line, user: u64) {
        let mut random = Random::of(self.seed, what::USER, user ^ (2 << 60));
        if !random.chance(40) {
            let place = random.pick(&PLACES);
            line.key("geo_info").open();
            line.key("continent").text(place.continent);
            line.key("country").text(place.country);
            line.key("province").text(place.province);
            line.key("city").text(place.city);
            match place.postal_code {
                Some(code) => line.key("postal_code").text(code),
                None => line.key("postal_code").null(),
            }
            line.close();
        }
        if !random.chance(160) {
            let (isp, organization, number, name) = random.pick(&PROVIDERS);
            line.key("isp_info").open();
            line.key("isp").text(isp);
            line.key("organization").text(organization);
            line.key("autonomous_system_number").number(number);
            line.key("autonomous_system_organization").text(name);
            line.close();
        }
    }
}

/// Whether the platform enriches events of this type with place and network: those that tell most about a reader.
fn has_origin(kind: Kind) -> bool {
    matches!(kind, Kind::Pageview | Kind::Videoview | Kind::LinkClick | Kind::FormSubmission)
}

/// The public number of the day's segment `index`, as `segments` and `segment_metadata` have it.
pub(super) fn segment_number(index: u64) -> u64 {
    1021 + 13 * index
}

/// The date so many days later, or the date itself where the calendar ends.
pub(super) fn days_from(date: time::Date, days: i64) -> time::Date {
    date.checked_add(time::Duration::days(days)).unwrap_or(date)
}
