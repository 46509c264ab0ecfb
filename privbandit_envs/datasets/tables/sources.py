"""The eleven data sets of Ma and Yang, "Optimal Locally Private Nonparametric Classification with Public Data".

From the paper (Table 1, section 7.1, appendix C.1): which data sets, what is predicted, which rows are public, and the
sizes n_P, n_Q and d. It does not name the columns that are used nor their coding. These are our choice, made so that d
and, where a file's size is known, n_P and n_Q are those of Table 1; ``Source.ours`` says what remains open. The sizes
show what the paper's text does not say: n_P is 80 % of the private rows, the rest being its test set; Census takes both
files of Adult without the rows with missing values; Jobs takes men and women only; Employee's public rows are those of
2012, its first year. Table 1 has n_P and n_Q of Rice and Census the other way round than the text.

A column is found by its name whatever its case, spaces and punctuation; ``a|b`` is one that goes by two names. The
categories that occur in a file are treated as known to everyone, like the names of its columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from privbandit_envs.datasets.csv import is_number

FILE = "name of the file"
"""A column that every table has besides its own: the file that a row comes from."""


class Kind(Enum):
    """How a column becomes features."""

    NUMBER = "its number"
    CODE = "the number of its category, in sorted order"
    ONE_HOT = "an indicator of every category"


class Rule(NamedTuple):
    """Which rows are public.

    Attributes:
        column: it goes by this column.
        text: the rule in words.
        values: from how often each value occurs, those whose rows are public.
    """

    column: str
    text: str
    values: Callable[[Mapping[str, int]], set[str]]


class Sizes(NamedTuple):
    """Sizes as printed in Table 1."""

    private: int
    public: int
    d: int


@dataclass(frozen=True)
class Source:
    """A data set: where it is, and what is done with it.

    Attributes:
        title: what it is about.
        page: where it is described and, by hand, to be had.
        files: the files that are read.
        label: the column to predict.
        sizes: n_P, n_Q and d as printed.
        n_public: public rows that the paper draws at random, or None where the rule decides.
        classes: values of the label, in the order of their codes; other rows are left out. None: the two commonest.
        features: the columns used; None: all, as numbers, that are not named otherwise.
        dropped: columns left out, where all are used.
        rule: which rows are public; None: drawn at random.
        keep: values of a column whose rows are kept.
        url: the archive to download; None: Kaggle, or another page that wants a login.
        sha256: checksums of files that are known beforehand.
        header: names of the columns, of files that do not name them.
        ours: what the paper leaves open and is chosen here.
    """

    title: str
    page: str
    files: tuple[str, ...]
    label: str
    sizes: Sizes
    n_public: int | None = None
    classes: tuple[str, ...] | None = ("0", "1")
    features: Mapping[str, Kind] | None = None
    dropped: tuple[str, ...] = ()
    rule: Rule | None = None
    keep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    url: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    ours: str = ""


def equal(value: str) -> Callable[[Mapping[str, int]], set[str]]:
    """Return the choice of one value, whatever its case."""
    return lambda counts: {found for found in counts if found.casefold() == value.casefold()}


def at_most(value: float) -> Callable[[Mapping[str, int]], set[str]]:
    """Return the choice of all values up to a number."""
    return lambda counts: {found for found in counts if is_number(found) and float(found) <= value}


def of_size(rows: int) -> Callable[[Mapping[str, int]], set[str]]:
    """Return the choice of the value whose number of rows is nearest to a given one."""
    return lambda counts: set(sorted(counts, key=lambda found: (abs(counts[found] - rows), found))[:1])


def numbers(*names: str) -> dict[str, Kind]:
    """Return columns of numbers."""
    return dict.fromkeys(names, Kind.NUMBER)


ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)

SOURCES: dict[str, Source] = {
    "anonymity": Source(
        title="has someone tried to hide who they are on the internet? (poll)",
        page="https://www.kaggle.com/datasets/econdata/internet-privacy-poll",
        files=("AnonymityPoll.csv",),
        label="Tried.Masking.Identity",
        sizes=Sizes(453, 50, 14),
        n_public=50,
        features={
            **numbers("Internet.Use", "Smartphone", "Age", "Conservativeness", "Info.On.Internet", "Worry.About.Info"),
            **numbers("Privacy.Importance", "Anonymity.Possible", "Privacy.Laws.Effective"),
            "Sex": Kind.CODE,
            "Region": Kind.ONE_HOT,
        },
        ours="State is left out, Region is an indicator of each of four: d = 14",
    ),
    "diabetes": Source(
        title="is a patient diabetic?",
        page="https://www.kaggle.com/datasets/nanditapore/healthcare-diabetes",
        files=("Healthcare-Diabetes.csv",),
        label="Outcome",
        sizes=Sizes(2054, 200, 8),
        n_public=200,
        features=numbers(
            "Pregnancies",
            "Glucose",
            "BloodPressure",
            "SkinThickness",
            "Insulin",
            "BMI",
            "DiabetesPedigreeFunction|Pedigree",
            "Age",
        ),
        ours="zeros that stand for missing values stay",
    ),
    "email": Source(
        title="is an e-mail spam? (how often it has each word)",
        page="https://www.kaggle.com/datasets/balaka18/email-spam-classification-dataset-csv",
        files=("emails.csv",),
        label="Prediction",
        sizes=Sizes(3977, 200, 3000),
        n_public=200,
        dropped=("Email No.",),
    ),
    "employ": Source(
        title="is a student employable? (marks of a mock interview)",
        page="https://www.kaggle.com/datasets/anashamoutni/students-employability-dataset",
        files=("Student-Employability-Datasets.csv",),
        label="CLASS",
        sizes=Sizes(2225, 200, 8),
        n_public=200,
        classes=("LessEmployable", "Employable"),
        features=numbers(
            "GENERAL APPEARANCE",
            "MANNER OF SPEAKING",
            "PHYSICAL CONDITION",
            "MENTAL ALERTNESS",
            "SELF-CONFIDENCE",
            "ABILITY TO PRESENT IDEAS",
            "COMMUNICATION SKILLS",
            "Student Performance Rating",
        ),
        ours="the file is a spreadsheet: save its data sheet as CSV",
    ),
    "rice": Source(
        title="which of two varieties is a grain of rice?",
        page="https://archive.ics.uci.edu/dataset/545/rice+cammeo+and+osmancik",
        files=("Rice_Cammeo_Osmancik.arff",),
        label="Class",
        sizes=Sizes(240, 3510, 7),
        n_public=300,
        classes=("Cammeo", "Osmancik"),
        features=numbers(
            "Area", "Perimeter", "Major_Axis_Length", "Minor_Axis_Length", "Eccentricity", "Convex_Area", "Extent"
        ),
        url="https://archive.ics.uci.edu/static/public/545/rice+cammeo+and+osmancik.zip",
        ours="300 public rows as in the text; Table 1 prints n_Q = 3,510, all the others",
    ),
    "census": Source(
        title="does someone earn more than 50,000 dollars a year? (Adult)",
        page="https://archive.ics.uci.edu/dataset/2/adult",
        files=("adult.data", "adult.test"),
        label="income",
        sizes=Sizes(41292, 3144, 46),
        classes=("<=50K", ">50K"),
        features={
            **numbers("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
            **dict.fromkeys(("workclass", "marital-status", "occupation", "relationship", "race"), Kind.ONE_HOT),
            "sex": Kind.CODE,
        },
        rule=Rule("native-country", "native country United-States", equal("United-States")),
        url="https://archive.ics.uci.edu/static/public/2/adult.zip",
        sha256={
            "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        },
        header=ADULT,
        ours="education (which education-num repeats) and native country are no features: d = 46; Table 1 prints the "
        "sizes the other way round",
    ),
    "election": Source(
        title="did Clinton win a county in 1992?",
        page="https://www.kaggle.com/datasets/jwt0024/1992-us-presidential-election",
        files=("full_dataset.csv",),
        label="clinton_win|clinton_won|clinton_wins",
        sizes=Sizes(1752, 222, 9),
        classes=("False|0|No|Bush", "True|1|Yes|Clinton"),
        features=numbers(
            "median_age",
            "mean_savings",
            "per_capita_income",
            "percent_in_poverty",
            "percent_veterans",
            "percent_female",
            "population_density",
            "percent_in_nursing_homes",
            "crime_index_PC|crime_index",
        ),
        rule=Rule("state|state_abbreviation", "state TX", equal("TX")),
        ours="shares of the vote, county, state and region are no features: d = 9",
    ),
    "employee": Source(
        title="does an employee leave?",
        page="https://www.kaggle.com/datasets/tawfikelmetwally/employee-dataset",
        files=("Employee.csv",),
        label="LeaveOrNot",
        sizes=Sizes(3319, 504, 9),
        features={
            "Education": Kind.CODE,
            "City": Kind.ONE_HOT,
            **numbers("PaymentTier", "Age", "ExperienceInCurrentDomain"),
            "Gender": Kind.CODE,
            "EverBenched": Kind.CODE,
        },
        rule=Rule("JoiningYear", "joined up to 2012", at_most(2012)),
        ours='"before 2012" is read as up to 2012, the first year in the file: 504 rows as in Table 1; Education is a '
        "code (Bachelors, Masters, PHD), City an indicator of each of three: d = 9",
    ),
    "jobs": Source(
        title="was a job applicant hired?",
        page="https://www.kaggle.com/datasets/ayushtankha/70k-job-applicants-data-human-resource",
        files=("stackoverflow_full.csv",),
        label="Employed",
        sizes=Sizes(46218, 14318, 11),
        features={
            **dict.fromkeys(("Age", "Accessibility", "EdLevel"), Kind.CODE),
            **numbers("Employment"),
            **dict.fromkeys(("Gender", "MentalHealth", "MainBranch"), Kind.CODE),
            **numbers("YearsCode", "YearsCodePro", "PreviousSalary", "ComputerSkills"),
        },
        rule=Rule("Country", "country United States of America", equal("United States of America")),
        keep={"Gender": ("Man", "Woman")},
        ours="HaveWorkedWith is left out and EdLevel is a code: d = 11; rows with another gender than Man or Woman are "
        "left out, as n_P and n_Q tell",
    ),
    "landcover": Source(
        title="is a pixel farm or forest? (Landsat time series)",
        page="https://archive.ics.uci.edu/dataset/400/crowdsourced+mapping",
        files=("training.csv", "testing.csv"),
        label="class",
        sizes=Sizes(7097, 131, 28),
        classes=("farm", "forest"),
        rule=Rule(FILE, "labelled by experts (testing.csv)", equal("testing.csv")),
        url="https://archive.ics.uci.edu/static/public/400/crowdsourced+mapping.zip",
    ),
    "taxi": Source(
        title="is a taxi trip in Chicago paid by credit card or in cash?",
        page="https://www.drivendata.org/competitions/77/deid2-sprint-3-prescreened/",
        files=("ground_truth.csv",),
        label="payment_type",
        sizes=Sizes(3297639, 117367, 93),
        classes=None,
        features={
            "shift": Kind.ONE_HOT,
            **numbers("pickup_community_area|pca", "dropoff_community_area|dca", "fare", "tips", "trip_total"),
            **numbers("trip_seconds|seconds", "trip_miles|miles"),
        },
        rule=Rule("company_id|company", "the company with a number of trips nearest to 117,367", of_size(117367)),
        ours="the two commonest payment types; the paper names no company and no coding: here taxi_id is left out, "
        "shift is an indicator of each of 21 and areas are their numbers, d = 28 and not 93",
    ),
}
