// GORM as a program with it begins each time: AutoMigrate, which changes nothing the second time;
// rows with what belongs to them, upserts, savepoints, and its migrator.
//
// Usage: gorm PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Company struct {
	ID   uint
	Name string `gorm:"size:100;uniqueIndex;comment:its name"`
}

type User struct {
	gorm.Model
	Name      string    `gorm:"size:255;index:by_name,sort:desc"`
	Email     *string   `gorm:"uniqueIndex;size:191"`
	Age       uint8     `gorm:"default:18;check:age_ok,age > 5"`
	Rate      float64   `gorm:"type:decimal(10,2);default:1.50;not null"`
	Active    bool      `gorm:"default:true"`
	At        time.Time `gorm:"precision:6;default:CURRENT_TIMESTAMP(6)"`
	Data      []byte
	Bio       string
	CompanyID *uint
	Company   *Company
	Cards     []Card
	Languages []Language `gorm:"many2many:user_languages"`
}

type Card struct {
	gorm.Model
	Number string
	UserID uint
}

type Language struct {
	ID   uint
	Code string `gorm:"size:10;uniqueIndex"`
}

// Statements that it was told of.
type statements struct {
	logger.Interface
	sent []string
}

func (s *statements) LogMode(logger.LogLevel) logger.Interface { return s }

func (s *statements) Trace(_ context.Context, _ time.Time, of func() (string, int64), _ error) {
	text, _ := of()
	s.sent = append(s.sent, text)
}

func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func equal(expected, found any) {
	if expected != found {
		log.Output(2, fmt.Sprintf("expected %v, found %v", expected, found))
		os.Exit(1)
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	address := fmt.Sprintf("root@tcp(127.0.0.1:%s)/client_gorm?parseTime=true", os.Args[1])
	quiet := logger.Default.LogMode(logger.Silent)
	db, err := gorm.Open(mysql.Open(address), &gorm.Config{Logger: quiet})
	must(err)
	models := []any{&Company{}, &Language{}, &User{}, &Card{}}
	must(db.AutoMigrate(models...))
	again := &statements{Interface: quiet}
	must(db.Session(&gorm.Session{Logger: again}).AutoMigrate(models...))
	for _, statement := range again.sent {
		if !strings.HasPrefix(strings.TrimSpace(statement), "SELECT") {
			log.Fatalf("the second AutoMigrate sends %s", statement)
		}
	}
	rows(db)
	migrator(db)
}

func rows(db *gorm.DB) {
	email := "ada@example.com"
	user := User{Name: "Ada", Email: &email, Company: &Company{Name: "C"},
		Cards: []Card{{Number: "1"}, {Number: "2"}}, Languages: []Language{{Code: "en"}, {Code: "de"}}}
	must(db.Create(&user).Error)
	var users []User
	must(db.Preload("Cards").Preload("Languages").Joins("Company").Find(&users).Error)
	equal(1, len(users))
	equal("2 2 C 18 1.5 true", fmt.Sprintf("%d %d %s %d %g %t", len(users[0].Cards), len(users[0].Languages),
		users[0].Company.Name, users[0].Age, users[0].Rate, users[0].Active))
	must(db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Company{ID: 1, Name: "D"}).Error)
	must(db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Company{ID: 1, Name: "E"}).Error)
	var company Company
	must(db.First(&company).Error)
	equal("D", company.Name)
	must(db.Model(&user).Association("Languages").Replace([]Language{{Code: "fr"}}))
	must(db.CreateInBatches([]Language{{Code: "x"}, {Code: "y"}, {Code: "z"}}, 2).Error)
	must(db.Transaction(func(outer *gorm.DB) error {
		undone := errors.New("undone")
		err := outer.Transaction(func(inner *gorm.DB) error {
			must(inner.Create(&Language{Code: "no"}).Error)
			return undone
		})
		equal(undone, err)
		return outer.Clauses(clause.Locking{Strength: "UPDATE"}).First(&user, user.ID).Error
	}))
	var languages int64
	must(db.Model(&Language{}).Count(&languages).Error)
	equal(int64(6), languages)
	must(db.Delete(&user).Error)
	equal(gorm.ErrRecordNotFound, db.First(&User{}, user.ID).Error)
}

func migrator(db *gorm.DB) {
	migrator := db.Migrator()
	equal(true, migrator.HasConstraint(&User{}, "Company"))
	must(migrator.RenameColumn(&Card{}, "number", "digits"))
	must(migrator.AddColumn(&Card{}, "Number"))
	must(migrator.DropColumn(&Card{}, "digits"))
	must(migrator.RenameIndex(&User{}, "by_name", "named"))
	must(migrator.DropConstraint(&User{}, "age_ok"))
	must(migrator.DropConstraint(&User{}, "Company"))
	equal(false, migrator.HasConstraint(&User{}, "Company"))
	equal(true, migrator.HasIndex(&User{}, "named"))
	types, err := migrator.ColumnTypes(&User{})
	must(err)
	equal(13, len(types))
	must(migrator.DropTable(&Card{}, "user_languages", &User{}, &Language{}, &Company{}))
	tables, err := migrator.GetTables()
	must(err)
	equal(0, len(tables))
}
