"""Generated files with the columns of the real ones, for tests and for trying things out: no real data.

Columns are drawn independently of each other from simple laws; the label depends on the first number of a row. A column
``generated sample``, or a comment in a file that has no names of columns, marks such a file also after it was prepared.
"""

import csv
from io import StringIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.random import Generator, default_rng

from privbandit_envs.datasets.tables.files import GENERATED
from privbandit_envs.datasets.tables.sources import SOURCES
from privbandit_envs.files import atomic
from privbandit_envs.validate import count, one_of
from privbandit_envs.validate import seed as checked_seed

Law = tuple[float, float] | tuple[float, float, int] | tuple[str, ...]
"""Numbers from a range, with that many digits after the point; or categories, all equally often."""

YES_NO: Law = ("Yes", "No")
FLAG: Law = (0, 1)
GRADE: Law = (1, 5)
NDVI: Law = (-1000.0, 8000.0, 2)
DAYS = "0720 0602 0517 0501 0415 0330 0314 0226 0210 0125 0109"
DAYS_BEFORE = "1117 1101 1016 0930 0813 0626 0610 0525 0509 0423 0407 0322 0218 0202 0117 0101"
GRADES = "GENERAL APPEARANCE,MANNER OF SPEAKING,PHYSICAL CONDITION,MENTAL ALERTNESS,SELF-CONFIDENCE"
GRADES += ",ABILITY TO PRESENT IDEAS,COMMUNICATION SKILLS,Student Performance Rating"

COLUMNS: dict[str, dict[str, Law]] = {
    "anonymity": {
        "Internet.Use": FLAG,
        "Smartphone": ("0", "1", "NA"),
        "Sex": ("Male", "Female"),
        "Age": (18, 93),
        "State": ("Ohio", "Texas", "Maine", "Utah"),
        "Region": ("Midwest", "Northeast", "South", "West"),
        "Conservativeness": GRADE,
        "Info.On.Internet": (0, 11),
        "Worry.About.Info": FLAG,
        "Privacy.Importance": (0.0, 100.0, 4),
        "Anonymity.Possible": FLAG,
        "Tried.Masking.Identity": ("0", "1"),
        "Privacy.Laws.Effective": FLAG,
    },
    "diabetes": {
        "Id": (1, 2768),
        "Pregnancies": (0, 17),
        "Glucose": (0, 199),
        "BloodPressure": (0, 122),
        "SkinThickness": (0, 110),
        "Insulin": (0, 846),
        "BMI": (0.0, 80.0, 1),
        "DiabetesPedigreeFunction": (0.08, 2.42, 3),
        "Age": (21, 81),
        "Outcome": ("0", "1"),
    },
    "email": {
        "Email No.": ("Email 1", "Email 2", "Email 3"),
        **{f"word{number}": (0, 9) for number in range(3000)},
        "Prediction": ("0", "1"),
    },
    "employ": {
        "Name of Student": ("Student 1", "Student 2"),
        **dict.fromkeys(GRADES.split(","), GRADE),
        "CLASS": ("LessEmployable", "Employable"),
    },
    "rice": {
        "Area": (7551, 18913),
        "Perimeter": (359.0, 549.0, 4),
        "Major_Axis_Length": (145.0, 240.0, 4),
        "Minor_Axis_Length": (59.0, 108.0, 4),
        "Eccentricity": (0.77, 0.95, 4),
        "Convex_Area": (7723, 19099),
        "Extent": (0.49, 0.87, 4),
        "Class": ("Cammeo", "Osmancik"),
    },
    "census": {
        "age": (17, 90),
        "workclass": (
            *("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov"),
            *("Without-pay", "?"),
        ),
        "fnlwgt": (12285, 1490400),
        "education": ("Bachelors", "HS-grad", "11th", "Masters"),
        "education-num": (1, 16),
        "marital-status": (
            *("Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent"),
            "Married-AF-spouse",
        ),
        "occupation": (
            *("Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty"),
            *("Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving"),
            *("Priv-house-serv", "Protective-serv", "Armed-Forces"),
        ),
        "relationship": ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
        "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
        "sex": ("Female", "Male"),
        "capital-gain": (0, 99999),
        "capital-loss": (0, 4356),
        "hours-per-week": (1, 99),
        "native-country": ("United-States", "Mexico", "United-States", "Cuba", "United-States", "Japan", "?"),
        "income": ("<=50K", ">50K"),
    },
    "election": {
        "county_name": ("Washington", "Lincoln", "Jackson"),
        "percent_for_clinton": (6.0, 85.0, 2),
        "median_age": (20.0, 55.0, 1),
        "mean_savings": (3239, 618789),
        "per_capita_income": (5000, 35000),
        "percent_in_poverty": (0.0, 60.0, 1),
        "percent_veterans": (2.0, 25.0, 1),
        "percent_female": (34.0, 56.0, 1),
        "population_density": (0.1, 50000.0, 1),
        "percent_in_nursing_homes": (0.0, 6.0, 1),
        "crime_index_PC": (0.0, 1500.0, 1),
        "state": ("TX", "OH", "ME", "UT", "GA"),
        "region": ("Southeast", "West"),
        "clinton_win": ("FALSE", "TRUE"),
    },
    "employee": {
        "Education": ("Bachelors", "Masters", "PHD"),
        "JoiningYear": (2012, 2018),
        "City": ("Bangalore", "Pune", "New Delhi"),
        "PaymentTier": (1, 3),
        "Age": (22, 41),
        "Gender": ("Male", "Female"),
        "EverBenched": YES_NO,
        "ExperienceInCurrentDomain": (0, 7),
        "LeaveOrNot": ("0", "1"),
    },
    "jobs": {
        "": (0, 73461),
        "Age": ("<35", ">35"),
        "Accessibility": YES_NO,
        "EdLevel": ("Undergraduate", "Master", "PhD", "NoHigherEd", "Other"),
        "Employment": FLAG,
        "Gender": ("Man", "Woman", "NonBinary"),
        "MentalHealth": YES_NO,
        "MainBranch": ("Dev", "NotDev"),
        "YearsCode": (0, 50),
        "YearsCodePro": (0, 50),
        "Country": ("United States of America", "India", "Germany", "Brazil"),
        "PreviousSalary": (1.0, 224000.0, 1),
        "HaveWorkedWith": ("C++;Python;Git", "", "Java;SQL"),
        "ComputerSkills": (0, 107),
        "Employed": ("0", "1"),
    },
    "landcover": {
        "class": ("farm", "forest", "water", "orchard"),
        "max_ndvi": NDVI,
        **{f"2015{day}_N": NDVI for day in DAYS.split()},
        **{f"2014{day}_N": NDVI for day in DAYS_BEFORE.split()},
    },
    "taxi": {
        "taxi_id": (1000000, 1099999),
        "shift": tuple(str(shift) for shift in range(21)),
        "company_id": tuple(str(company) for company in (0, 1, 2, 1, 3, 1)),
        "pickup_community_area": (-1, 77),
        "dropoff_community_area": (-1, 77),
        "payment_type": tuple(str(kind) for kind in (0, 1, 0, 1, -1)),
        "fare": (0, 100),
        "tips": (0, 20),
        "trip_total": (0, 120),
        "trip_seconds": (0, 7200),
        "trip_miles": (0, 40),
    },
}
"""The columns of the files, in their order, and the law of each."""


def write(name: str, path: Path, rows: int = 500, seed: int = 0) -> int:
    """Write a sample, whole or not at all: a file, or a .zip file where the data set has several; return its rows.

    Args:
        name: one of ``SOURCES``.
        path: the file.
        rows: of each file, at least 50.
        seed: of the sample.

    Raises:
        OSError: it cannot be written.
        ValueError: an unknown name, too few rows or a bad seed.
    """
    files = SOURCES[one_of(SOURCES, name=name)].files
    if count(rows=rows) < 50:
        raise ValueError(f"rows must be >= 50; got {rows}.")
    rng = default_rng(checked_seed(seed=seed))
    contents = [content(name, file, rows, rng) for file in files]
    with atomic(path, "wb") as target:
        if len(files) == 1:
            target.write(contents[0].encode())
        else:
            with ZipFile(target, "w") as archive:
                for file, text in zip(files, contents, strict=True):
                    archive.writestr(file, text)
    return rows * len(files)


def content(name: str, file: str, rows: int, rng: Generator) -> str:
    """Return the text of one file."""
    columns = table(name, rows, rng)
    if file.endswith(".arff"):
        first = [f"% {GENERATED}", "@relation sample", *map(attribute, COLUMNS[name].items()), "@data", ""]
        return "\n".join(first) + text(columns)
    if SOURCES[name].header:
        return f"|{GENERATED}\n" + text(columns, end="." if file.endswith(".test") else "")
    columns[GENERATED] = ["1"] * rows
    return text({column: [column, *cells] for column, cells in columns.items()})


def text(columns: dict[str, list[str]], end: str = "") -> str:
    """Return columns as lines of a CSV file."""
    lines = StringIO()
    rows = zip(*columns.values(), strict=True)
    csv.writer(lines, lineterminator="\n").writerows([*row[:-1], row[-1] + end] for row in rows)
    return lines.getvalue()


def attribute(column: tuple[str, Law]) -> str:
    """Return the line of an ARFF file that declares a column."""
    name, law = column
    return f"@attribute {name} " + (f"{{{','.join(map(str, law))}}}" if isinstance(law[0], str) else "numeric")


def table(name: str, rows: int, rng: Generator) -> dict[str, list[str]]:
    """Return the cells of every column."""
    label = SOURCES[name].label.partition("|")[0]
    columns = {column: draw(law, rows, rng) for column, law in COLUMNS[name].items()}
    numbers = [column for column, law in COLUMNS[name].items() if not isinstance(law[0], str) and column != label]
    low, *_, high = sorted(columns[label], key=COLUMNS[name][label].index)
    order = np.argsort(np.argsort([float(cell) for cell in columns[numbers[min(1, len(numbers) - 1)]]]))
    likely = rng.random(rows) < 0.2 + 0.6 * order / rows
    columns[label] = [
        cell if cell not in (low, high) else high if one else low
        for cell, one in zip(columns[label], likely.tolist(), strict=True)
    ]
    return columns


def draw(law: Law, rows: int, rng: Generator) -> list[str]:
    """Return cells of one column."""
    if isinstance(law[0], str):
        return [str(law[at]) for at in rng.permutation(np.arange(rows) % len(law)).tolist()]
    low, high, digits = (*law, 0)[:3]
    if not digits:
        return [str(cell) for cell in rng.integers(int(low), int(high) + 1, rows).tolist()]
    return [f"{cell:.{int(digits)}f}" for cell in rng.uniform(float(low), float(high), rows).tolist()]
