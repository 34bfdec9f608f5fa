// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// The store on disk is a snapshot, replaced as a whole, and a journal of the
// changes since. A journal line is "<crc32c of the JSON> <JSON>\n" and is written
// before a call is answered, so that it survives any end of this process. Records
// are numbered; records in the snapshot are skipped, so a crash between writing a
// snapshot and emptying the journal does no harm.
//
// A power cut is another matter. Changes of networks are synced before the call
// is answered. The rest is synced within flushDelay: namespaces do not survive a
// reboot, kube-proxy creates load balancers and remote endpoints again, and an
// endpoint is not missed if its pod ended with the machine. Syncing each of them
// would add the disk's worst delays, several times, to each pod's start.
const (
	snapshotName = "snapshot.json"
	journalName  = "journal"

	// compactBytes: the journal is folded into the snapshot when it is longer
	// than this and than four times the snapshot. 1 MiB holds some thousand
	// changes, a replay of about 20 ms.
	compactBytes = 1 << 20

	// flushDelay bounds the loss at a power cut.
	flushDelay = time.Second
)

// record is one journal line, and the snapshot.
type record struct {
	Format  int      `json:"f,omitempty"` // of the snapshot: formatVersion
	Seq     uint64   `json:"n"`
	Changes []change `json:"c"`
}

// formatVersion is raised when an older program could not read the store.
const formatVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli) // read-only table

// journal is the open store. Not safe for concurrent use.
type journal struct {
	dir      string
	file     *os.File
	lock     *durable.Lock // of file; nil where locks are not supported
	seq      uint64        // of the last record written
	size     int64         // bytes of good records in file
	snapshot int64         // bytes of the snapshot
	// broken is set when a failed write could not be undone: the file may end
	// in half a record that later records would follow.
	broken error
}

// openJournal reads the store in dir, making it if it is not there.
func openJournal(dir string) (*journal, *state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("open store: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open store: %w", err)
	}
	j := &journal{dir: dir, file: f}
	tx := newTxn(&state{})
	if j.lock, err = durable.TryLock(f.Name(), durable.Exclusive); errors.Is(err, errors.ErrUnsupported) {
		err = nil // the emulator runs on Linux; elsewhere only its tests do
	}
	if err == nil {
		err = j.loadSnapshot(tx)
	}
	if err == nil {
		err = j.loadJournal(tx)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open store %s: %w", dir, err), j.close())
	}
	return j, &tx.state, nil
}

func (j *journal) loadSnapshot(tx *txn) error {
	b, err := os.ReadFile(filepath.Join(j.dir, snapshotName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(j.dir, snapshotName), err)
	}
	if r.Format != formatVersion {
		return fmt.Errorf("read %s: format %d, this program knows %d", filepath.Join(j.dir, snapshotName), r.Format,
			formatVersion)
	}
	j.seq, j.snapshot = r.Seq, int64(len(b))
	return replayAll(tx, r)
}

func replayAll(tx *txn, r record) error {
	for _, c := range r.Changes {
		if err := tx.replay(c); err != nil {
			return err
		}
	}
	return nil
}

// loadJournal replays the journal. A crash during a write leaves a bad last
// record: the call was never answered, so the record is cut off. A bad record
// before a good one means damage and is an error.
func (j *journal) loadJournal(tx *txn) error {
	b, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	rest := b
	for len(rest) > 0 {
		line, after, complete := bytes.Cut(rest, []byte("\n"))
		r, err := decodeRecord(line)
		if !complete || err != nil {
			// A file system may leave zeros where a power cut kept it from writing.
			if !bytes.HasPrefix(rest, []byte{0}) && goodRecordIn(after) {
				return fmt.Errorf("read %s: damaged at byte %d", j.file.Name(), j.size)
			}
			break
		}
		if r.Seq > j.seq {
			if err := replayAll(tx, r); err != nil {
				return err
			}
			j.seq = r.Seq
		}
		j.size += int64(len(line) + 1)
		rest = after
	}
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	_, err = j.file.Seek(j.size, io.SeekStart)
	return err
}

func goodRecordIn(b []byte) bool {
	for line := range bytes.Lines(b) {
		if _, err := decodeRecord(bytes.TrimSuffix(line, []byte("\n"))); err == nil {
			return true
		}
	}
	return false
}

func decodeRecord(line []byte) (record, error) {
	var r record
	var sum [4]byte
	if len(line) < 10 || line[8] != ' ' {
		return r, errors.New("no record")
	}
	if _, err := hex.Decode(sum[:], line[:8]); err != nil {
		return r, err
	}
	if crc32.Checksum(line[9:], castagnoli) != uint32(sum[0])<<24|uint32(sum[1])<<16|uint32(sum[2])<<8|uint32(sum[3]) {
		return r, errors.New("checksum differs")
	}
	return r, json.Unmarshal(line[9:], &r)
}

func encodeRecord(r record) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(b, castagnoli), b), nil
}

// append writes the changes, and with sync returns when they are on the disk.
// After an error the store on disk is as before.
func (j *journal) append(changes []change, sync bool) error {
	if j.broken != nil {
		return fmt.Errorf("write journal: %w", j.broken)
	}
	b, err := encodeRecord(record{Seq: j.seq + 1, Changes: changes})
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	_, err = j.file.Write(b)
	if err == nil && sync {
		err = j.file.Sync()
	}
	if err != nil {
		_, seekErr := j.file.Seek(j.size, io.SeekStart)
		if undo := errors.Join(j.file.Truncate(j.size), seekErr); undo != nil {
			j.broken = errors.Join(err, undo)
		}
		return fmt.Errorf("write journal: %w", err)
	}
	j.seq++
	j.size += int64(len(b))
	return nil
}

// compact folds the journal into a new snapshot if it has grown long. An error
// does no harm: the journal still holds everything.
func (j *journal) compact(s *state) error {
	if j.size < max(compactBytes, 4*j.snapshot) {
		return nil
	}
	changes, err := s.dump()
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	b, err := json.Marshal(record{Format: formatVersion, Seq: j.seq, Changes: changes})
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(j.dir, snapshotName), b, 0o600); err != nil {
		return err
	}
	j.snapshot = int64(len(b))
	if err := j.file.Truncate(0); err != nil {
		return fmt.Errorf("empty journal: %w", err)
	}
	j.size = 0
	if _, err := j.file.Seek(0, io.SeekStart); err != nil {
		j.broken = err
		return fmt.Errorf("empty journal: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	if j.lock != nil {
		defer j.lock.Unlock()
	}
	return j.file.Close()
}

// writeCode returns the Windows code of an error of writing.
func writeCode(err error) hresult.Code {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return hresult.DiskFull
	}
	return hresult.Fail
}
