"""Django on mysqlclient: its own migrations and tables, models, queries, transactions, inspectdb."""

import datetime
import decimal
import io
import os
import sys
import tempfile

import MySQLdb

from common import HOST, MYSQL_PORT, database_of

DATABASE = database_of("django")
with MySQLdb.connect(host=HOST, port=MYSQL_PORT, user="root") as admin:
    admin.query(f"DROP DATABASE IF EXISTS {DATABASE}")
    admin.query(f"CREATE DATABASE {DATABASE}")

MODELS = '''
from django.db import models

class Author(models.Model):
    name = models.CharField(max_length=100, unique=True)
    born = models.DateField(null=True)

class Tag(models.Model):
    name = models.SlugField()

class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    tags = models.ManyToManyField(Tag)
    title = models.CharField(max_length=200, db_index=True)
    text = models.TextField(blank=True)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    rating = models.FloatField(default=0)
    sold = models.PositiveIntegerField(default=0)
    public = models.BooleanField(default=True)
    printed = models.DateTimeField(null=True)
    facts = models.JSONField(default=dict)
    cover = models.BinaryField(null=True)
    number = models.UUIDField(null=True)

    class Meta:
        ordering = ["title"]
        indexes = [models.Index(fields=["author", "title"])]
'''
project = tempfile.mkdtemp()
os.mkdir(os.path.join(project, "shop"))
for name, content in [("__init__.py", ""), ("models.py", MODELS)]:
    with open(os.path.join(project, "shop", name), "w", encoding="utf-8") as file:
        file.write(content)
sys.path.insert(0, project)

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", USE_TZ=True, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.sessions", "shop"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.mysql", "NAME": DATABASE, "USER": "root", "PASSWORD": "",
        "HOST": HOST, "PORT": MYSQL_PORT, "OPTIONS": {"charset": "utf8mb4"},
    }},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache",
                        "LOCATION": "cache"}},
)
django.setup()

from django.core.cache import cache
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.models import Avg, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Window
from django.db.models.functions import Lower, RowNumber, TruncMonth

call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)
call_command("createcachetable", verbosity=0)

from shop.models import Author, Book, Tag

# Rows, one at a time and many.
ada = Author.objects.create(name="Ada", born=datetime.date(1815, 12, 10))
bob, made = Author.objects.get_or_create(name="Bob")
assert made and bob.id != ada.id
assert Author.objects.get_or_create(name="Bob") == (bob, False)

AT = datetime.datetime(2024, 1, 1, 12, 0, 0, 123456, tzinfo=datetime.timezone.utc)
Book.objects.bulk_create([
    Book(author=ada if i % 2 else bob, title=f"Book {i:03}", price=decimal.Decimal(i) / 4,
         rating=i / 8, sold=i, printed=AT + datetime.timedelta(days=i), public=i % 3 != 0,
         facts={"pages": i, "kinds": ["a", "b"]},
         cover=b"\x00\xff" if i == 1 else None)
    for i in range(200)
])
assert Book.objects.count() == 200
first = Book.objects.get(title="Book 001")
assert (first.price, first.printed, first.facts) == (
    decimal.Decimal("0.25"), AT + datetime.timedelta(days=1), {"pages": 1, "kinds": ["a", "b"]})
assert bytes(first.cover) == b"\x00\xff"

# Filters, joins, aggregates, windows.
assert Book.objects.filter(author__name="Ada", price__gte=10).count() == 80
assert Book.objects.filter(Q(title__startswith="Book 00") | Q(sold__in=[100, 101])).count() == 12
assert Book.objects.filter(printed__year=2024, printed__month=2).count() == 29
assert Book.objects.filter(facts__pages=17).get().title == "Book 017"
assert Book.objects.exclude(public=True).count() == 67
totals = Book.objects.aggregate(Sum("sold"), Avg("price"), Max("printed"))
assert totals["sold__sum"] == 19900 and totals["price__avg"] == decimal.Decimal("24.875")
by_author = Author.objects.values("name").annotate(n=Count("books"), top=Max("books__sold"))
assert list(by_author.order_by("name").values_list("name", "n", "top")) == [
    ("Ada", 100, 199), ("Bob", 100, 198)]
months = Book.objects.annotate(m=TruncMonth("printed")).values("m").annotate(n=Count("id"))
assert [row["n"] for row in months.order_by("m")][:2] == [31, 29]
sold = Book.objects.filter(author=OuterRef("pk")).values("author").annotate(n=Sum("sold"))
assert Author.objects.annotate(n=Subquery(sold.values("n"))).get(name="Ada").n == 10000
assert Author.objects.filter(Exists(Book.objects.filter(author=OuterRef("pk"), sold=7))).get() == ada
numbered = Book.objects.annotate(row=Window(RowNumber(), partition_by="author", order_by="-sold"))
assert numbered.order_by("-sold")[0].row == 1
assert Book.objects.annotate(low=Lower("title")).values_list("low", flat=True)[5] == "book 005"
assert [b.title for b in Book.objects.select_related("author").order_by("-sold")[10:12]] == [
    "Book 189", "Book 188"]
assert len(Author.objects.prefetch_related("books").get(name="Bob").books.all()) == 100

# Changes.
assert Book.objects.filter(author=ada).update(sold=F("sold") + 1, rating=5) == 100
assert Book.objects.get(title="Book 001").sold == 2
first.title = "Changed"
first.save()
assert Book.objects.filter(title="Changed").exists()
Book.objects.update_or_create(title="Changed", defaults={"sold": 77})
assert Book.objects.get(title="Changed").sold == 77
red, blue = Tag.objects.bulk_create([Tag(id=1, name="red"), Tag(id=2, name="blue")])
# tags.add() would send INSERT IGNORE, which needs a unique key that is enforced.
Book.tags.through.objects.bulk_create(
    [Book.tags.through(book=first, tag=tag) for tag in (red, blue)])
first.tags.remove(red)
assert [tag.name for tag in first.tags.all()] == ["blue"] and blue.book_set.get() == first
assert Book.objects.filter(sold__gt=190).delete()[0] == 9

# Transactions, nested and not.
try:
    with transaction.atomic():
        Tag.objects.create(name="outer")
        try:
            with transaction.atomic():
                Tag.objects.create(name="inner")
                raise ValueError
        except ValueError:
            pass
        locked = Book.objects.select_for_update().get(title="Book 010")
        locked.sold = 1000
        locked.save()
        assert Tag.objects.filter(name__in=["outer", "inner"]).count() == 1
        raise KeyError
except KeyError:
    pass
assert Tag.objects.count() == 2 and Book.objects.get(title="Book 010").sold == 10
try:
    Tag(id=1).save(force_insert=True)
except IntegrityError as error:
    assert error.args[0] == 1062, error
else:
    raise AssertionError("a key was stored twice")

assert ada.delete()[0] > 90 and not Book.objects.filter(author_id=ada.id).exists()

cache.set("k", {"v": [1, 2]}, 60)
assert cache.get("k") == {"v": [1, 2]} and cache.get("none") is None

written = io.StringIO()
call_command("inspectdb", "shop_book", stdout=written)
assert "title = models.CharField(max_length=200" in written.getvalue(), written.getvalue()
assert "price = models.DecimalField(max_digits=10, decimal_places=2)" in written.getvalue()
call_command("migrate", "shop", "zero", verbosity=0)
assert "shop_book" not in connection.introspection.table_names()
