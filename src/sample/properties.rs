//! What each type of event says in `properties` beyond what all of them say: articles, videos, adverts, slots, forms.

use super::events::{Events, Kind, View, days_from, segment_number, what};
use super::line::Line;
use super::random::{Random, at};
use super::words::{CONCEPTS, DEVICES, GENRES, LABELS, LANGUAGES, POSITIONS, SECTIONS, SIZES, TAGS, Workspace};

impl Events {
    /// The properties that only this type of event has.
    pub(super) fn write_own(&mut self, line: &mut Line, kind: Kind, view: &View, workspace: &Workspace) {
        match kind {
            Kind::Pageview => self.write_page(line, view, workspace),
            Kind::PageviewEngagement => {
                line.key("engaged_time").number(5);
                line.key("completion").share(self.completion());
            }
            Kind::PageviewComplete => self.write_aggregations(line, "PageviewEngagement"),
            Kind::Videoview => self.write_video(line, view, workspace),
            Kind::VideoCompletion => {
                self.write_video(line, view, workspace);
                self.write_aggregations(line, "VideoEngagement");
            }
            Kind::VideoAdView => self.write_advert(line),
            Kind::SlotViewable | Kind::SlotClicked => self.write_slot(line, view, workspace),
            Kind::LinkClick => {
                let number = self.random.below(900).to_string();
                line.key("dest_url").text_of(&["https://partner-", &number, ".example/landing?src=", workspace.name, "&a=1"]);
            }
            Kind::FormSubmission => self.write_form(line),
            Kind::SegmentEntry => {
                let segment = self.random.below(self.segments);
                line.key("segment_number").number(segment_number(segment));
            }
            Kind::PaywallShown => {
                line.key("offer").open();
                line.key("id").text(self.random.pick(&["monthly-trial", "annual", "student"]));
                line.key("price").thousandths(self.random.pick(&[4_990, 5_000, 49_900, 1_000]));
                line.key("currency").text(self.random.pick(&["EUR", "GBP", "JPY"]));
                line.close();
                line.key("meter").open();
                line.key("count").number(self.random.below(6));
                line.key("limit").number(5);
                line.close();
            }
        }
    }

    /// How far a reader came, in millionths: often not at all, at times to the very end.
    fn completion(&mut self) -> u64 {
        match self.random.below(10) {
            0 => 0,
            1 => 1_000_000,
            2 => self.random.below(101) * 10_000,
            _ => self.random.below(1_000_000),
        }
    }

    fn write_aggregations(&mut self, line: &mut Line, of: &str) {
        line.key("aggregations").open();
        line.key(of).open();
        line.key("completion").share(self.completion());
        let seconds = self.random.skewed(600);
        // Whole seconds are the rule, so that only the odd event shows that this is not an integer.
        let part = if self.random.chance(20) { 500 } else { 0 };
        line.key("engaged_time").thousandths(seconds * 1000 + part);
        line.close();
        line.close();
    }

    fn write_page(&mut self, line: &mut Line, view: &View, workspace: &Workspace) {
        let article = Article::of(self.seed, view, workspace);
        let mut random = article.random.clone();
        line.key("article").open();
        line.key("id").text(&article.id);
        line.key("title").text_of(&article.title_with(workspace));
        line.key("section").text(article.section);
        line.key("categories").open_list();
        for _ in 0..=random.below(3) {
            line.item().text(random.pick(article.categories));
        }
        line.close_list();
        line.key("tags").open_list();
        for _ in 0..random.below(4) {
            line.item().text(random.pick(&TAGS));
        }
        line.close_list();
        line.key("authors").open_list();
        for _ in 0..random.below(3) {
            line.item().text(random.pick(workspace.authors));
        }
        line.close_list();
        line.key("publishedAt").instant(days_from(self.date, -1 - random.skewed(400).cast_signed()), random.below(86_400) * 1000);
        line.key("wordCount").number(120 + random.skewed(3000));
        line.key("premium").flag(random.chance(220));
        line.close();
        // The classifier does not know every article, and not every language.
        if workspace.name != "港町新聞" && random.chance(500) {
            Self::write_classification(line, &mut random);
        }
        self.write_user(line, view.user);
    }

    fn write_classification(line: &mut Line, random: &mut Random) {
        line.key("classifications").open();
        line.key("categories").open_list();
        for _ in 0..2 {
            line.item().open();
            line.key("label").text(random.pick(&LABELS));
            line.key("score").share(random.below(1_000_000));
            line.close();
        }
        line.close_list();
        for block in ["concepts", "keywords"] {
            line.key(block).open_list();
            for _ in 0..=random.below(3) {
                line.item().open();
                line.key("text").text(random.pick(&CONCEPTS));
                line.key("relevance").share(1_000_000 - random.skewed(1_000_000));
                line.close();
            }
            line.close_list();
        }
        line.close();
    }

    fn write_user(&self, line: &mut Line, user: u64) {
        let mut random = Random::of(self.seed, what::USER, user ^ (3 << 60));
        if random.chance(300) {
            return;
        }
        let is_member = random.chance(350);
        line.key("user").open();
        line.key("logged_in").flag(is_member);
        if is_member {
            line.key("subscription").text(random.pick(&["free", "digital", "weekend", "digital+print"]));
            line.key("since").instant(days_from(self.date, -random.skewed(3000).cast_signed()), 0);
        } else {
            line.key("subscription").null();
        }
        line.close();
    }

    fn write_video(&mut self, line: &mut Line, view: &View, workspace: &Workspace) {
        let mut random = Random::of(self.seed, what::VIDEO, view.article % 300);
        line.key("video").open();
        let is_series = random.chance(600);
        line.key("title").text_of(&[
            random.pick(workspace.headline.subjects),
            " \u{1F3AC} ",
            random.pick(workspace.headline.tails),
        ]);
        line.key("genre").open_list();
        for _ in 0..=random.below(2) {
            line.item().text(random.pick(&GENRES));
        }
        line.close_list();
        line.key("content_type").open_list();
        line.item().text(if is_series { "episode" } else { "clip" });
        line.close_list();
        line.key("runtime").number(20 + random.skewed(5400));
        if is_series {
            line.key("season_number").number(1 + random.below(9));
            line.key("episode_number").number(1 + random.below(24));
        } else {
            line.key("season_number").null();
            line.key("episode_number").null();
        }
        line.key("subtitles").open();
        let shows_subtitles = self.random.chance(300);
        line.key("enabled").flag(shows_subtitles);
        if shows_subtitles {
            line.key("language").text(self.random.pick(&LANGUAGES));
        }
        line.close();
        line.close();
    }

    fn write_advert(&mut self, line: &mut Line) {
        let campaign = self.random.skewed(60);
        line.key("ad").open();
        line.key("title").text_of(&["Spot ", &campaign.to_string(), " – ", self.random.pick(&GENRES)]);
        // Nearly all spots have whole seconds: a column that looks like integers until, late, it does not.
        line.key("duration").thousandths(if self.random.chance(20) { 15_500 } else { 15_000 + 5_000 * self.random.below(4) });
        line.key("muted").flag(self.random.chance(700));
        line.key("campaign_id").number(30_000_000 + campaign);
        line.key("creative_id").number(138_000_000_000 + campaign * 977 + self.random.below(5));
        line.close();
    }

    fn write_slot(&mut self, line: &mut Line, view: &View, workspace: &Workspace) {
        let campaign = self.random.skewed(150);
        let (width, height) = self.random.pick(&SIZES);
        let is_empty = self.random.chance(50);
        for (key, number) in [
            ("advertiser_id", 4_400_000_000 + campaign * 31),
            ("campaign_id", 2_900_000_000 + campaign),
            ("creative_id", 138_000_000_000 + campaign * 977 + self.random.below(5)),
            ("line_item_id", 5_600_000_000 + campaign * 7 + self.random.below(3)),
        ] {
            if is_empty {
                line.key(key).null();
            } else {
                line.key(key).number(number);
            }
        }
        line.key("width").number(width);
        line.key("height").number(height);
        line.key("is_empty").flag(is_empty);
        line.key("service_name").text("publisher_ads");
        let article = Article::of(self.seed, view, workspace);
        line.key("slot").open();
        line.key("ad_unit_path").text_of(&["/21700001/", article.domain, "/", article.section]);
        line.key("targeting_keys").open_list();
        for key in ["pos", "permutive", "kw"] {
            line.item().open();
            line.key("key").text(key);
            line.key("value").open_list();
            match key {
                "pos" => line.item().text(self.random.pick(&POSITIONS)),
                "kw" => {
                    for _ in 0..self.random.below(3) {
                        line.item().text(self.random.pick(&TAGS));
                    }
                }
                _ => {
                    for _ in 0..self.random.below(5) {
                        let segment = segment_number(self.random.below(self.segments));
                        line.item().text(&segment.to_string());
                    }
                }
            }
            line.close_list();
            line.close();
        }
        line.close_list();
        line.close();
    }

    fn write_form(&mut self, line: &mut Line) {
        line.key("form").open();
        line.key("id").text(self.random.pick(&["newsletter", "contact", "competition"]));
        line.key("properties").open_list();
        for (name, values) in [
            ("email_domain", ["mail.example", "post.example", "correo.example"].as_slice()),
            ("topics", &["news, sport", "Kultur & Essen", "C:\\path \"quoted\"", ""]),
            ("city", &["Málaga", "横浜市", "Łódź"]),
        ] {
            line.item().open();
            line.key("name").text(name);
            if self.random.chance(100) {
                line.key("value").null();
            } else {
                line.key("value").text(self.random.pick(values));
            }
            line.close();
        }
        line.close_list();
        line.close();
    }
}

/// An article, the same whenever it is asked for.
pub(super) struct Article {
    pub(super) id: String,
    pub(super) domain: &'static str,
    pub(super) section: &'static str,
    categories: &'static [&'static str],
    title: [&'static str; 3],
    mark: &'static str,
    random: Random,
}

impl Article {
    pub(super) fn of(seed: u64, view: &View, workspace: &Workspace) -> Self {
        let mut random = Random::of(seed, what::ARTICLE, view.article * 8 + view.workspace);
        let (section, categories) = random.pick(&SECTIONS);
        let headline = workspace.headline;
        let title = [random.pick(headline.subjects), random.pick(headline.predicates), random.pick(headline.tails)];
        let mark = if random.chance(40) { "\u{1F534} Live: " } else { "" };
        let (client, ..) = at(&DEVICES, view.device);
        let site = match client {
            "amp" => 1,
            _ if section == "sport" => 2,
            _ => 0,
        };
        let domain = workspace.domains.get(site).or(workspace.domains.first()).copied().unwrap_or_default();
        Self { id: (1_000_000 + random.below(9_000_000)).to_string(), domain, section, categories, title, mark, random }
    }

    /// The title's pieces in a row.
    pub(super) fn title_with(&self, workspace: &Workspace) -> [&'static str; 6] {
        let [subject, predicate, tail] = self.title;
        let space = workspace.headline.space;
        [self.mark, subject, space, predicate, space, tail]
    }
}
