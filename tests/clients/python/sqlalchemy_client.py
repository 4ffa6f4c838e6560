"""SQLAlchemy: DDL of its own, bulk inserts, transactions, and reflection through SHOW."""

import datetime
import decimal

from sqlalchemy import (
    Column, Date, DateTime, Integer, MetaData, Numeric, String, Table, create_engine, func,
    inspect, select, text,
)
from sqlalchemy.orm import Session, declarative_base

from common import HOST, MYSQL_PORT, database_of, raises

DATABASE = database_of("sqlalchemy")
URL = f"mysql+pymysql://root:@{HOST}:{MYSQL_PORT}"

admin = create_engine(URL, isolation_level="AUTOCOMMIT")
with admin.connect() as connection:
    connection.execute(text(f"DROP DATABASE IF EXISTS {DATABASE}"))
    connection.execute(text(f"CREATE DATABASE {DATABASE}"))

engine = create_engine(f"{URL}/{DATABASE}")
metadata = MetaData()
orders = Table(
    "orders", metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", String(30), nullable=False),
    Column("price", Numeric(10, 2)),
    Column("day", Date),
    Column("at", DateTime),
)
metadata.create_all(engine)
assert inspect(engine).has_table("orders") and not inspect(engine).has_table("nope")

ROWS = [
    {"id": i, "name": f"n{i}", "price": decimal.Decimal(i) / 4, "day": datetime.date(2024, 1, 1),
     "at": datetime.datetime(2024, 1, 1, 12, 0, i % 60)}
    for i in range(2500)
]
with engine.begin() as connection:
    connection.execute(orders.insert(), ROWS)
with engine.connect() as connection:
    count, total = connection.execute(select(func.count(), func.sum(orders.c.price))).one()
    assert (count, total) == (2500, decimal.Decimal(2499 * 2500) / 8), (count, total)
    found = connection.execute(select(orders).where(orders.c.id == 42)).one()
    assert found._asdict() == ROWS[42], found
    page = select(orders.c.id).order_by(orders.c.id.desc()).limit(2).offset(1)
    assert connection.execute(page).scalars().all() == [2498, 2497]
    connection.execute(orders.insert(), {"id": -1, "name": "gone"})
    connection.rollback()
    assert connection.scalar(select(func.min(orders.c.id))) == 0

reflected = Table("orders", MetaData(), autoload_with=engine)
assert [column.name for column in reflected.columns] == ["id", "name", "price", "day", "at"]
assert isinstance(reflected.c.price.type, Numeric) and not reflected.c.name.nullable
assert inspect(engine).get_table_names() == ["orders"]
assert DATABASE in inspect(engine).get_schema_names()
assert inspect(engine).get_pk_constraint("orders")["constrained_columns"] == ["id"]

Base = declarative_base()


class Person(Base):
    """A class that the ORM maps."""

    __tablename__ = "people"
    id = Column(Integer, primary_key=True, autoincrement=False)
    name = Column(String(20))


Base.metadata.create_all(engine)
with Session(engine) as session:
    session.add_all([Person(id=1, name="Ada"), Person(id=2, name="Grace")])
    session.commit()
    assert session.query(Person).filter_by(name="Ada").one().id == 1

with engine.connect() as connection:
    raises(1146, connection.execute, text("SELECT * FROM nope"))
    connection.rollback()
    raises(1054, connection.execute, text("SELECT nope FROM orders"))
metadata.drop_all(engine)
assert not inspect(engine).has_table("orders")
