// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
)

// leastVolume is the size below which a file system has no room for its journal, in bytes.
const leastVolume = 16 << 20

// releaseLimit bounds the wait for the loop device of a volume that was unmounted.
const releaseLimit = 2 * time.Second

// Volumes gives volumes file systems of a fixed size: a pod that fills its volume leaves the room of all others as it
// is. Each is an image, a file on the host's disk whose space is reserved when it is made. It stays mounted at the
// volume's directory until it is closed or the host ends. The parent has the loop devices, process 1 the mounts.
// It implements csidriver.Disks.
type Volumes struct {
	images, dir string
	parent      int // a socket

	mu sync.Mutex // one request at a time
}

// NewVolumes returns the Volumes of process 1. images is the directory of the images, dir that of the volumes.
func NewVolumes(images, dir string) *Volumes {
	return &Volumes{images: images, dir: dir, parent: fdVolumes}
}

func (v *Volumes) image(id string) string { return filepath.Join(v.images, id) }
func (v *Volumes) place(id string) string { return filepath.Join(v.dir, id) }

// Open mounts the image of a volume at the volume's directory, which exists, unless it is mounted. A volume
// without an image gets one of a size in bytes; if the size is 0, the error is fs.ErrNotExist.
func (v *Volumes) Open(ctx context.Context, id string, bytes int64) (err error) {
	if err := storage.CheckID(id); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("mount volume %s: %w", id, err)
		}
	}()
	v.mu.Lock()
	defer v.mu.Unlock()
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, v.place(id), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MODE|unix.STATX_UID|
		unix.STATX_GID, &st); err != nil {
		return fmt.Errorf("look at %s: %w", v.place(id), err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return nil
	}
	f, err := os.OpenFile(v.image(id), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) && bytes > 0 {
		f, err = os.OpenFile(v.image(id)+making, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err == nil {
			err = f.Truncate(max(bytes, leastVolume))
		}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	err = reserve(f)
	var m *os.File
	if err == nil {
		m, err = v.mount(f)
	}
	if err == nil {
		defer m.Close()
		err = v.finish(id, f, m, &st)
	}
	if err == nil {
		err = unix.MoveMount(int(m.Fd()), "", unix.AT_FDCWD, v.place(id), unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil && strings.HasSuffix(f.Name(), making) {
		_ = os.Remove(f.Name()) // it has its name only if finish failed
	}
	return err
}

// making is the end of the name of an image that Open is making; no volume has such a name.
const making = ".New"

// reserve allocates all blocks of an image that has none yet, or that release has taken some from.
func reserve(f *os.File) error {
	var own unix.Stat_t
	var disk unix.Statfs_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &own), unix.Fstatfs(int(f.Fd()), &disk)); err != nil {
		return fmt.Errorf("measure %s: %w", f.Name(), err)
	}
	missing := own.Size - own.Blocks*512 // the unit of st_blocks
	if missing <= 0 {
		return nil
	}
	room := storage.Room(int64(disk.Blocks)*disk.Bsize, int64(disk.Bavail)*disk.Bsize)
	err := unix.ENOSPC
	if missing <= room {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, own.Size); !errors.Is(err, unix.ENOSPC) {
			return err
		}
	}
	return fmt.Errorf("%w: the claim needs %d MiB, and the node's disk has room for %d MiB of claims (a fifth of it "+
		"is not for claims): delete claims or pods of this node, or make its disk larger: `mullion stop`, then "+
		"`mullion up --disk SIZE`; the pod then starts by itself", err, missing>>20, room>>20)
}

// release gives back the blocks of an image, which is not in use, that were never written.
func release(f *os.File) error {
	for at := int64(0); ; {
		hole, err := unix.Seek(int(f.Fd()), at, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(f.Fd()), hole, unix.SEEK_DATA)
		last := errors.Is(err, unix.ENXIO) // the file ends with the hole
		if last {
			end, err = unix.Seek(int(f.Fd()), 0, unix.SEEK_END)
		}
		if err == nil && end > hole {
			err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, hole, end-hole)
		}
		if err != nil || last {
			return err
		}
		at = end
	}
}

// finish makes an image of an unfinished one: the root of its file system gets the rights of the directory that it
// will be mounted at.
func (v *Volumes) finish(id string, f, mount *os.File, like *unix.Statx_t) error {
	if !strings.HasSuffix(f.Name(), making) {
		return nil
	}
	err := errors.Join(os.Remove(filepath.Join(mount.Name(), "lost+found")),
		os.Chown(mount.Name(), int(like.Uid), int(like.Gid)), unix.Chmod(mount.Name(), uint32(like.Mode)&0o7777))
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), v.image(id))
}

// Close unmounts the image of a volume, also if a program uses it, and removes it if remove is set. Otherwise it takes
// no more room than its data from then on.
func (v *Volumes) Close(ctx context.Context, id string, remove bool) error {
	if err := storage.CheckID(id); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	err := unix.Unmount(v.place(id), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // it is not mounted
		return fmt.Errorf("unmount volume %s: %w", id, err)
	}
	if !remove {
		ctx, cancel := context.WithTimeout(ctx, releaseLimit)
		defer cancel()
		f, err := lockDisk(ctx, v.image(id))
		if err != nil {
			return nil //nolint:nilerr // there is none, or it is in use: all of it stays reserved
		}
		return errors.Join(release(f), f.Close())
	}
	if err := os.Remove(v.image(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove volume %s: %w", id, err)
	}
	return nil
}

// answerBytes bounds an error text of the parent.
const answerBytes = 4096

// mount sends an image to the parent and returns a mount of it, without a place. An unfinished image gets a file
// system.
func (v *Volumes) mount(image *os.File) (*os.File, error) {
	if err := unix.Sendmsg(v.parent, []byte(image.Name()), unix.UnixRights(int(image.Fd())), nil, 0); err != nil {
		return nil, fmt.Errorf("send image to the parent: %w", err)
	}
	text, m, err := receive(v.parent)
	if err != nil {
		return nil, fmt.Errorf("receive mount from the parent: %w", err)
	}
	if m == nil {
		return nil, errors.New(text)
	}
	return m, nil
}

// receive reads one message and the file with it, which may be nil. Programs that this one starts find it by its name.
func receive(socket int) (text string, f *os.File, err error) {
	data, rights := make([]byte, answerBytes), make([]byte, unix.CmsgSpace(4))
	n, rn, _, _, err := unix.Recvmsg(socket, data, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return "", nil, errors.Join(err, fs.ErrClosed)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil || len(messages) == 0 {
		return string(data[:n]), nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return "", nil, err
	}
	return string(data[:n]), os.NewFile(uintptr(fds[0]), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fds[0])), nil
}

// mountVolumes answers process 1 until its end of the socket is closed.
func mountVolumes(ctx context.Context, socket *os.File) {
	defer socket.Close()
	for {
		name, image, err := receive(int(socket.Fd()))
		if err != nil || image == nil {
			return
		}
		m, err := mountVolume(ctx, name, image)
		_ = image.Close() // the loop device has it
		answer, rights := []byte{0}, []byte(nil)
		if err != nil {
			answer = []byte(err.Error())
			answer = answer[:min(len(answer), answerBytes)]
		} else {
			rights = unix.UnixRights(int(m.Fd()))
		}
		// An error means that process 1 has ended.
		_ = unix.Sendmsg(int(socket.Fd()), answer, rights, nil, 0)
		if m != nil {
			_ = m.Close()
		}
	}
}

// mountVolume mounts an image, which has a name in the host, without a place.
func mountVolume(ctx context.Context, name string, image *os.File) (*os.File, error) {
	err := awaitLock(ctx, image)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("a program still has a file of its former mount open: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, making) {
		err = makeFileSystem(ctx, image.Name(), "0")
	} else {
		err = repair(ctx, image)
	}
	if err != nil {
		return nil, err
	}
	// Pages of the image would be in memory twice.
	loop, err := attachLoop(image, unix.LO_FLAGS_DIRECT_IO)
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	m, err := mountLoop(loop.Name(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w (if it is damaged, call in the host: e2fsck -f %s)", err, name)
	}
	return m, nil
}
