//! The made-up publishers of the sample organisation, and the places, networks, devices and words that its events speak of.

/// A workspace: one publication of the organisation, with its language and its sites.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Workspace {
    pub(super) name: &'static str,
    /// The web site, the AMP site and, where there is one, a site of its own for sport.
    pub(super) domains: &'static [&'static str],
    pub(super) headline: Headline,
    pub(super) authors: &'static [&'static str],
    /// Whether its tracker escapes all that is not ASCII.
    pub(super) escapes: bool,
}

/// A headline is a subject, a predicate and a tail, one of each list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Headline {
    pub(super) subjects: &'static [&'static str],
    pub(super) predicates: &'static [&'static str],
    pub(super) tails: &'static [&'static str],
    /// What stands between the parts: a space, or nothing in Japanese.
    pub(super) space: &'static str,
}

pub(super) const WORKSPACES: [Workspace; 5] = [
    Workspace {
        name: "Daily Lantern",
        domains: &["www.dailylantern.example", "amp.dailylantern.example", "sport.dailylantern.example"],
        headline: Headline {
            subjects: &[
                "City council",
                "Harbour authority",
                "Young inventors",
                "The night bus drivers",
                "Rail company",
                "A retired teacher",
                "Local bakers",
                "Weather service",
                "The \"Old Mill\" trust",
                "Striking nurses",
                "Café owners",
                "University researchers",
            ],
            predicates: &[
                "vote for",
                "reject",
                "celebrate",
                "question",
                "reopen",
                "warn of",
                "publish",
                "invest in",
                "say no to",
                "take a second look at",
                "win a prize for",
                "quietly drop",
            ],
            tails: &[
                "a new cycle path along the river",
                "the €40m bridge plan",
                "longer opening hours",
                "cheaper fares from March",
                "a library without books",
                "the coldest winter in years",
                "plans to flood the quarry",
                "a shared kitchen for the old town",
                "what nobody measured",
                "the last ferry of the day",
                "a football ground for 9,000 people",
                "a museum of small things",
            ],
            space: " ",
        },
        authors: &["Ada Whitcombe", "Joanna O'Malley", "Kwame Boateng", "Siân Prys-Roberts", "Newsdesk", "Priya Raman"],
        escapes: false,
    },
    Workspace {
        name: "Morgenblatt Süd",
        domains: &["www.morgenblatt.example", "amp.morgenblatt.example"],
        headline: Headline {
            subjects: &[
                "Stadtrat",
                "Freibad am Fluß",
                "Feuerwehr",
                "Bäckerei Grübl",
                "Das Landgericht",
                "Forscherin aus Jülich",
                "Kleingärtner",
                "Straßenbahn",
                "Der Handballverein",
                "Bürgermeisterin",
            ],
            predicates: &[
                "beschließt",
                "kämpft um",
                "öffnet wieder für",
                "streitet über",
                "überrascht mit",
                "prüft",
                "verschiebt",
                "lädt ein zu",
                "warnt vor",
                "spart bei",
            ],
            tails: &[
                "neue Radwege am Hafen",
                "höhere Gebühren ab März",
                "ein Fest für alle",
                "die längste Tafel der Stadt",
                "das Hochwasser im Frühjahr",
                "zwölf Wohnungen aus Holz",
                "dem „Haus der Geräusche“",
                "einem Rekordwinter",
                "Gespräche mit Schülern",
                "Öl und Gas",
            ],
            space: " ",
        },
        authors: &["Jürgen Höß", "Käthe Brandl", "Redaktion", "Mehmet Yıldız", "Sabine Groß"],
        escapes: false,
    },
    Workspace {
        name: "La Gazette du Littoral",
        domains: &["www.gazette-littoral.example", "amp.gazette-littoral.example"],
        headline: Headline {
            subjects: &[
                "Le conseil régional",
                "L'école du port",
                "Une chercheuse",
                "Les pêcheurs",
                "La mairie",
                "Le musée d'à côté",
                "Un lycéen",
                "Les cheminots",
                "L'hôpital",
                "La coopérative",
            ],
            predicates: &[
                "relance",
                "défend",
                "refuse",
                "célèbre",
                "dévoile",
                "prépare",
                "abandonne",
                "étudie",
                "prolonge",
                "espère",
            ],
            tails: &[
                "la piste cyclable côtière",
                "un hiver sans neige",
                "l'été à la plage",
                "les marées du siècle",
                "la rénovation du théâtre",
                "un œuf géant",
                "des trains plus fréquents",
                "une fête de la forêt",
                "le phare de l'île",
                "ce qui n'a pas été mesuré",
            ],
            space: " ",
        },
        authors: &["Hélène Lefèvre", "François Noël", "La rédaction", "Anaïs Garçon"],
        escapes: true,
    },
    Workspace {
        name: "El Faro Diario",
        domains: &["www.elfarodiario.example", "amp.elfarodiario.example", "deportes.elfarodiario.example"],
        headline: Headline {
            subjects: &[
                "El ayuntamiento",
                "La peña de Logroño",
                "Una niña de once años",
                "Los bomberos",
                "El puerto",
                "La universidad",
                "Un jubilado",
                "Los vecinos",
                "La compañía de aguas",
                "El club de ajedrez",
            ],
            predicates: &[
                "aprueba",
                "rechaza",
                "celebra",
                "estrena",
                "pide",
                "aplaza",
                "investiga",
                "vuelve a",
                "defiende",
                "recupera",
            ],
            tails: &[
                "el carril bici",
                "la mañana más fría del año",
                "una biblioteca nueva",
                "¿el último ferri?",
                "las fiestas de otoño",
                "un parque para 200 árboles",
                "la cañada real",
                "tres años de obras",
                "el teatro de la plaza",
                "su mejor cosecha",
            ],
            space: " ",
        },
        authors: &["Íñigo Núñez", "María José Peña", "Redacción", "Begoña Ibáñez"],
        escapes: false,
    },
    Workspace {
        name: "港町新聞",
        domains: &["www.minatomachi.example", "amp.minatomachi.example"],
        headline: Headline {
            subjects: &[
                "市議会、",
                "港の市場、",
                "若い研究者、",
                "路面電車、",
                "小さなパン屋、",
                "高校生、",
                "気象台、",
                "図書館、",
            ],
            predicates: &[
                "新しい橋を",
                "冬の祭りを",
                "古い灯台を",
                "夜行バスを",
                "海辺の公園を",
                "朝市を",
                "水族館を",
                "自転車道を",
            ],
            tails: &["再開へ", "祝う", "見直す", "紹介", "守りたい", "延期", "公開", "「静かに」終える"],
            space: "",
        },
        authors: &["佐藤 花子", "編集部", "髙橋 健", "李 美玲"],
        escapes: false,
    },
];

/// Sections, each with what its articles are filed under.
pub(super) const SECTIONS: [(&str, &[&str]); 7] = [
    ("news", &["local", "politics", "crime", "traffic", "weather"]),
    ("sport", &["football", "handball", "cycling", "chess", "athletics"]),
    ("culture", &["music", "theatre", "books", "film"]),
    ("economy", &["work", "housing", "energy", "trade"]),
    ("science", &["climate", "health", "space"]),
    ("opinion", &["editorial", "letters"]),
    ("life/food", &["recipes", "restaurants", "gardens"]),
];

pub(super) const TAGS: [&str; 20] = [
    "breaking",
    "longread",
    "analysis",
    "liveblog",
    "interview",
    "photo-essay",
    "quiz",
    "Öffentlicher Nahverkehr",
    "vélo",
    "año nuevo",
    "harbour",
    "elections",
    "heatwave",
    "housing",
    "ferries",
    "schools",
    "festival",
    "startups",
    "forest",
    "祭り",
];

/// Labels of a text classifier, as paths from the general to the particular.
pub(super) const LABELS: [&str; 12] = [
    "/news",
    "/news/local news",
    "/sports/soccer",
    "/art and entertainment/music",
    "/science/weather",
    "/finance/investing",
    "/travel/transports/sea travel",
    "/society/social institution",
    "/food and drink/food/breads",
    "/law, govt and politics/politics",
    "/health and fitness",
    "/technology and computing/internet technology",
];

/// What a text classifier found worth naming.
pub(super) const CONCEPTS: [&str; 16] = [
    "City council",
    "Bicycle",
    "Ferry",
    "Lighthouse",
    "Football",
    "Renewable energy",
    "Bakery",
    "Flood",
    "Public library",
    "Theatre",
    "Winter",
    "São Paulo",
    "Zürich",
    "Climate",
    "Rail transport",
    "Housing cooperative",
];

/// Where a reader is. Provinces and cities are written as the place itself writes them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) continent: &'static str,
    pub(super) country: &'static str,
    pub(super) province: &'static str,
    pub(super) city: &'static str,
    pub(super) postal_code: Option<&'static str>,
}

const fn place(
    continent: &'static str,
    country: &'static str,
    province: &'static str,
    city: &'static str,
    postal_code: Option<&'static str>,
) -> Place {
    Place { continent, country, province, city, postal_code }
}

pub(super) const PLACES: [Place; 20] = [
    place("Europe", "United Kingdom", "England", "Bristol", Some("BS1")),
    place("Europe", "United Kingdom", "Cymru", "Caerdydd", None),
    place("Europe", "United Kingdom", "Scotland", "Dùn Èideann", Some("EH3")),
    place("Europe", "Germany", "Bayern", "München", Some("80331")),
    place("Europe", "Germany", "Nordrhein-Westfalen", "Köln", None),
    place("Europe", "Germany", "Baden-Württemberg", "Tübingen", Some("72070")),
    place("Europe", "Austria", "Niederösterreich", "Krems", None),
    place("Europe", "France", "Bretagne", "Saint-Brieuc", Some("22000")),
    place("Europe", "France", "Provence-Alpes-Côte d'Azur", "La Ciotat", None),
    place("Europe", "France", "Île-de-France", "Évry", None),
    place("Europe", "Spain", "Cataluña", "L'Hospitalet", Some("08901")),
    place("Europe", "Spain", "La Rioja", "Logroño", None),
    place("Europe", "Spain", "Andalucía", "Málaga", Some("29001")),
    place("Europe", "Poland", "Łódzkie", "Łódź", None),
    place("Asia", "Japan", "神奈川県", "横浜市", None),
    place("Asia", "Japan", "兵庫県", "神戸市", Some("650-0001")),
    place("North America", "United States", "California", "San José", Some("95113")),
    place("North America", "Canada", "Québec", "Trois-Rivières", None),
    place("South America", "Brazil", "São Paulo", "São Carlos", None),
    place("Oceania", "New Zealand", "Wellington", "Te Whanganui-a-Tara", None),
];

/// Who connects a reader: provider, organisation, autonomous system number (from RFC 5398's range for examples) and its name.
pub(super) const PROVIDERS: [(&str, &str, u64, &str); 9] = [
    ("Example Broadband", "Example Broadband", 64_496, "EXAMPLE-BB-AS"),
    ("Harbour Telecom", "Harbour Telecom Residential", 64_497, "HARBOUR-TELECOM"),
    ("Nordnetz", "Nordnetz GmbH", 64_498, "NORDNETZ-AS Nordnetz GmbH"),
    ("Télé Côte", "Télé Côte SA", 64_499, "TELECOTE"),
    ("Red Móvil", "Red Móvil S.A.U.", 64_500, "REDMOVIL-AS"),
    ("みなとネット", "みなとネット株式会社", 65_536, "MINATO-NET"),
    ("Campus Network", "University of the Coast", 65_537, "UCOAST-EDU"),
    ("Mobile One", "Mobile One plc", 65_538, "MOBILE-ONE"),
    ("Cloud Proxy", "Cloud Proxy Inc.", 65_551, "CLOUDPROXY, US"),
];

/// A reader's device: kind of client, user agent, width and height of the window in CSS pixels.
pub(super) const DEVICES: [(&str, &str, u64, u64); 8] = [
    (
        "web",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
        1536,
        730,
    ),
    (
        "web",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
        1440,
        789,
    ),
    ("web", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", 1920, 955),
    (
        "web",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1.1 Mobile/15E148 Safari/604.1",
        390,
        664,
    ),
    (
        "web",
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36",
        412,
        785,
    ),
    (
        "amp",
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36",
        360,
        664,
    ),
    ("iOS", "Lantern/7.12.0 (iPhone; iOS 18.1.1; Scale/3.00)", 393, 852),
    ("Android", "Lantern/7.11.3 (Linux; U; Android 14; SM-A546B Build/UP1A)", 411, 914),
];

pub(super) const REFERRERS: [&str; 8] = [
    "",
    "",
    "",
    "https://www.google.com/",
    "https://news.google.com/",
    "https://www.bing.com/",
    "android-app://com.google.android.gm/",
    "https://l.facebook.com/",
];

pub(super) const SIZES: [(u64, u64); 5] = [(300, 250), (728, 90), (970, 250), (160, 600), (320, 50)];
pub(super) const POSITIONS: [&str; 5] = ["top", "mid1", "mid2", "sidebar", "sticky"];
pub(super) const GENRES: [&str; 6] = ["News", "Documentary", "Comedy", "Sport", "Música", "Krimi"];
pub(super) const LANGUAGES: [&str; 5] = ["en", "de", "fr", "es", "ja"];
pub(super) const ID_TAGS: [&str; 5] = ["email_sha256", "appnexus", "ga", "rampId", "publisher_id"];
