// Reads Iceberg tables with iceberg-go, for the matrix of readers.
//
// Argument: a folder. Standard input is JSON with `questions`, each with the location of a table's metadata file. The answer to question n
// is n.arrow in the folder; standard output is a JSON list of errors, null where there is none.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

type condition struct{ Column, Kind, Text string }

type question struct {
	Metadata   string
	Columns    []string
	SnapshotID *int64 `json:"snapshot_id"`
	Condition  *condition
}

func main() {
	var request struct{ Questions []question }
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		panic(err)
	}
	errors := make([]*string, len(request.Questions))
	for number, asked := range request.Questions {
		if err := answer(asked, filepath.Join(os.Args[1], fmt.Sprintf("%d.arrow", number))); err != nil {
			text := err.Error()
			errors[number] = &text
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(errors); err != nil {
		panic(err)
	}
}

func answer(asked question, file string) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	ctx := context.Background()
	lake, err := table.NewFromLocation(ctx, table.Identifier{"lake"}, asked.Metadata, io.LoadFSFunc(nil, asked.Metadata), nil)
	if err != nil {
		return err
	}
	options := []table.ScanOption{table.WithSelectedFields(asked.Columns...)}
	if asked.SnapshotID != nil {
		options = append(options, table.WithSnapshotID(*asked.SnapshotID))
	}
	if asked.Condition != nil {
		filter, err := asked.Condition.filter()
		if err != nil {
			return err
		}
		options = append(options, table.WithRowFilter(filter))
	}
	schema, batches, err := lake.Scan(options...).ToArrowRecords(ctx)
	if err != nil {
		return err
	}
	return write(schema, batches, file)
}

func (c condition) filter() (iceberg.BooleanExpression, error) {
	column := iceberg.Reference(c.Column)
	switch c.Kind {
	case "int":
		value, err := strconv.ParseInt(c.Text, 10, 64)
		return iceberg.EqualTo(column, value), err
	case "date":
		day, err := time.Parse(time.DateOnly, c.Text)
		return iceberg.EqualTo(column, iceberg.Date(day.Unix()/86_400)), err
	default:
		return iceberg.EqualTo(column, c.Text), nil
	}
}

func write(schema *arrow.Schema, batches func(func(arrow.RecordBatch, error) bool), file string) error {
	output, err := os.Create(file)
	if err != nil {
		return err
	}
	defer output.Close()
	writer, err := ipc.NewFileWriter(output, ipc.WithSchema(schema))
	if err != nil {
		return err
	}
	for batch, err := range batches {
		if err != nil {
			return err
		}
		if err := writer.Write(batch); err != nil {
			return err
		}
	}
	return writer.Close()
}
