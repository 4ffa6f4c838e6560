// Stream loads as doris-streamloader sends them: tasks of several workers whose bodies are pipes of
// unknown length, which wait for 100-continue, go on at the Location of a 307, are packed as LZ4 or
// not, and are right only with status 200 and Success. Its source cannot be fetched here.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pierrec/lz4/v4"
)

const (
	workers       = 3
	tasksAWorker  = 4
	rowsATask     = 5000
	rowsABatch    = 4096
	tableAddress  = "/api/client_go/loaded/_stream_load"
	continueAfter = 5 * time.Second
)

// What a load of a task answers.
type reply struct {
	Status               string
	Message              string
	NumberLoadedRows     int
	NumberFilteredRows   int
	NumberUnselectedRows int
	LoadBytes            int
}

// Never follows a redirect by itself, and sends a body only when it is asked for.
var client = &http.Client{
	Timeout:   60 * time.Second,
	Transport: &http.Transport{ExpectContinueTimeout: continueAfter},
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	},
}

// Writes the rows of a task, a batch at a time, into one end of a pipe.
func write(pipe *io.PipeWriter, packed bool, worker, task int) {
	var out io.Writer = pipe
	var frames *lz4.Writer
	if packed {
		frames = lz4.NewWriter(pipe)
		out = frames
	}
	var batch strings.Builder
	for row := 1; row <= rowsATask; row++ {
		id := (worker*tasksAWorker+task)*rowsATask + row
		fmt.Fprintf(&batch, "%d,name %d,%d.25\n", id, id, row%100)
		if row%rowsABatch == 0 || row == rowsATask {
			if _, err := io.WriteString(out, batch.String()); err != nil {
				pipe.CloseWithError(err)
				return
			}
			batch.Reset()
		}
	}
	if packed {
		if err := frames.Close(); err != nil {
			pipe.CloseWithError(err)
			return
		}
	}
	pipe.Close()
}

// Sends a request with a new pipe as its body.
func put(address string, headers map[string]string, packed bool, worker, task int) (*http.Response, error) {
	reader, writer := io.Pipe()
	defer reader.Close()
	go write(writer, packed, worker, task)
	request, err := http.NewRequest(http.MethodPut, address, reader)
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth("root", "")
	request.Header.Set("Expect", "100-continue")
	request.Header.Set("format", "csv")
	request.Header.Set("column_separator", ",")
	if packed {
		request.Header.Set("Content-Encoding", "lz4")
		request.Header.Set("compress_type", "LZ4")
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	return client.Do(request)
}

func load(front string, headers map[string]string, packed bool, worker, task int) (reply, error) {
	var answer reply
	response, err := put(front+tableAddress, headers, packed, worker, task)
	if err == nil && response.StatusCode == http.StatusTemporaryRedirect {
		response.Body.Close()
		response, err = put(response.Header.Get("Location"), headers, packed, worker, task)
	}
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, err
	}
	if answer.Status != "Success" && answer.Status != "Publish Timeout" {
		return answer, fmt.Errorf("%s", text)
	}
	return answer, nil
}

// All tasks of all workers; the sum of what they answer.
func run(front string, headers map[string]string, packed bool) reply {
	var lock sync.Mutex
	var wait sync.WaitGroup
	var sum reply
	for worker := 0; worker < workers; worker++ {
		wait.Add(1)
		go func(worker int) {
			defer wait.Done()
			for task := 0; task < tasksAWorker; task++ {
				own := map[string]string{}
				for name, value := range headers {
					own[name] = value
				}
				if label, ok := own["label"]; ok {
					own["label"] = fmt.Sprintf("%s_%d_%d", label, worker, task)
				}
				answer, err := load(front, own, packed, worker, task)
				if err != nil {
					log.Fatalf("%v, packed %v, worker %d, task %d: %v", own, packed, worker, task, err)
				}
				lock.Lock()
				sum.NumberLoadedRows += answer.NumberLoadedRows
				sum.NumberFilteredRows += answer.NumberFilteredRows
				sum.NumberUnselectedRows += answer.NumberUnselectedRows
				sum.LoadBytes += answer.LoadBytes
				lock.Unlock()
			}
		}(worker)
	}
	wait.Wait()
	return sum
}

func main() {
	log.SetFlags(log.Lshortfile)
	server := "http://127.0.0.1:" + os.Args[1]
	// A front end of Doris, which sends every load on before it reads the body.
	front := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, of *http.Request) {
		to.Header().Set("Connection", "close")
		http.Redirect(to, of, server+of.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer front.Close()
	for _, address := range []string{server, front.URL} {
		for _, packed := range []bool{false, true} {
			for number, headers := range []map[string]string{
				{"group_commit": "async_mode"},
				{"group_commit": "sync_mode"},
				{"label": fmt.Sprintf("loader_%v_%v", address == server, packed)},
			} {
				sum := run(address, headers, packed)
				wanted := workers * tasksAWorker * rowsATask
				if sum.NumberLoadedRows != wanted || sum.NumberFilteredRows != 0 || sum.LoadBytes == 0 {
					log.Fatalf("%s, %d, packed %v: %+v", address, number, packed, sum)
				}
			}
		}
	}
	// A label that was used is no success: the tool stops.
	_, err := load(server, map[string]string{"label": "loader_1"}, false, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	_, err = load(server, map[string]string{"label": "loader_1"}, false, 0, 0)
	if err == nil || !strings.Contains(err.Error(), "Label Already Exists") {
		log.Fatalf("a label twice: %v", err)
	}
}
