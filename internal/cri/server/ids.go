// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// Each pod has its own range of Unix user IDs, because the kernel counts many things by
// user: inotify instances, the pages of pipes, file descriptors in flight between
// processes. One pod must not use up the share of another.
//
// On disk everything has the ids of accounts (64000 and so on). The layers of a container
// are mounted with the ids mapped (mount.Mapped); its writable layer has the pod's.

const (
	// IDsPerPod is the length of a range: the user IDs of accounts are within it, counted from
	// the ID of Engine.Owner.
	IDsPerPod = 32
	// podRanges is how many pods, including pods that have ended and not been removed,
	// have their own range on a host. The kubelet's default is 110 pods.
	podRanges = 512
	// IDsPerHost is how many IDs the pods of a host need.
	IDsPerHost = IDsPerPod * podRanges
)

// errNoIDs is returned if every range is in use.
var errNoIDs = errors.New("all ranges of user IDs are in use: remove pods that have ended")

// reserveIDs gives a sandbox the lowest free range, by its number from 1, and stores the
// record. Ranges are used again only after the sandbox is removed, with all its containers.
func (s *Server) reserveIDs(sb *store.Sandbox) error {
	s.ranges.Lock()
	defer s.ranges.Unlock()
	if s.cfg.FirstUID != 0 && !sb.HostProcess {
		var taken []int
		for _, other := range s.store.Sandboxes.List() {
			taken = append(taken, other.IDRange)
		}
		if sb.IDRange = lowestFree(taken); sb.IDRange > podRanges {
			return errNoIDs
		}
	}
	return s.store.Sandboxes.Put(*sb)
}

// lowestFree returns the lowest number from 1 that is not taken.
func lowestFree(taken []int) int {
	for n := 1; ; n++ {
		if !slices.Contains(taken, n) {
			return n
		}
	}
}

// firstUID returns the first user ID of a sandbox's range. A sandbox without one, of an older
// version or in a test, has the accounts' own ids.
func (s *Server) firstUID(sb store.Sandbox) uint32 {
	if account, _ := s.cfg.Engine.Owner(); s.cfg.FirstUID == 0 || sb.IDRange == 0 {
		return uint32(max(account, 0))
	}
	return s.cfg.FirstUID + uint32(sb.IDRange-1)*IDsPerPod
}

// uid returns the user that stands in a sandbox for the user of an account.
func (s *Server) uid(sb store.Sandbox, user uint32) uint32 {
	account, _ := s.cfg.Engine.Owner()
	if account < 0 || sb.HostProcess {
		return user
	}
	return user - uint32(account) + s.firstUID(sb)
}

// owner returns the user and group that a container's files belong to; -1 leaves them alone.
func (s *Server) owner(sb store.Sandbox) (uid, gid int) {
	if uid, gid = s.cfg.Engine.Owner(); uid < 0 {
		return uid, gid
	}
	return int(s.uid(sb, uint32(uid))), gid
}

// userMaps maps the user IDs of files on disk to the IDs of a sandbox's processes. All but the
// accounts' stay as they are, up to 65535.
func userMaps(account, first int) []mount.IDMap {
	above := account + IDsPerPod
	return []mount.IDMap{
		{Inside: 0, Outside: 0, Count: account},
		{Inside: account, Outside: first, Count: IDsPerPod},
		{Inside: above, Outside: above, Count: 1<<16 - above},
	}
}

// adopt makes the files in a container's Linux root that depend on the ids of its users: their
// names, and the directory in which Wine's server makes its socket, which must be the user's.
func (s *Server) adopt(id string, sb store.Sandbox, p oci.Process) error {
	account, _ := s.cfg.Engine.Owner()
	first := s.firstUID(sb)
	if account < 0 || first == uint32(account) {
		return nil
	}
	root, err := os.OpenRoot(s.linuxRoot(id))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // opened for look-ups
	users, err := root.ReadFile("etc/passwd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("name the users of the pod: %w", err)
	}
	if err == nil {
		users = []byte(mapUsers(string(users), uint32(account), first))
		if err := root.WriteFile("etc/passwd", users, 0o644); err != nil {
			return fmt.Errorf("name the users of the pod: %w", err)
		}
	}
	dir := fmt.Sprintf("run/user/%d", p.UID)
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory for wineserver's socket: %w", err)
	}
	return errors.Join(root.Chmod(dir, 0o700), root.Lchown(dir, int(p.UID), int(p.GID)))
}

// mapUsers changes the ids of a passwd(5) that are in the range of accounts.
func mapUsers(passwd string, account, first uint32) string {
	var out strings.Builder
	for line := range strings.Lines(passwd) {
		fields := strings.Split(line, ":")
		if len(fields) > 3 {
			n, err := strconv.ParseUint(fields[2], 10, 32)
			if id := uint32(n); err == nil && id >= account && id < account+IDsPerPod {
				fields[2] = strconv.FormatUint(uint64(id-account+first), 10)
			}
		}
		out.WriteString(strings.Join(fields, ":"))
	}
	return out.String()
}
