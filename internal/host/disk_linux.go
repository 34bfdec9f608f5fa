// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// blockBytes is the size of blocks of a disk's file system.
const blockBytes = 4096

// Times of a disk.
const (
	// freeLimit bounds the wait for a former run of the host to let go of a disk.
	freeLimit = 10 * time.Second
	freeEvery = 50 * time.Millisecond
	// machineEvery is how often the free space of the machine's disk is read.
	machineEvery = time.Second
	// tendEvery is how often the space of deleted files goes back to the machine's disk.
	tendEvery = 30 * time.Second
)

// openDisk returns a mount of a host's disk, which no mount namespace has yet. It makes a disk
// that does not exist, and grows one that is smaller than its configured size. The kernel
// frees the loop device when the last mount is gone.
func openDisk(ctx context.Context, c Spec, m Machine) (mount *os.File, err error) {
	if err := os.MkdirAll(Disk(c.Dir), 0o700); err != nil {
		return nil, fmt.Errorf("make host directory: %w", err)
	}
	image := Disk(c.Dir) + ".img"
	if err := makeDisk(ctx, image, m, c); err != nil {
		return nil, fmt.Errorf("make %s: %w", image, err)
	}
	f, err := lockDisk(ctx, image)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", image, err)
	}
	defer f.Close()
	if err := repair(ctx, f); err != nil {
		return nil, fmt.Errorf("repair %s: %w", image, err)
	}
	if err := grow(ctx, f, c.Disk); err != nil {
		return nil, fmt.Errorf("enlarge %s: %w", image, err)
	}
	loop, err := attachLoop(f, 0)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", image, err)
	}
	defer loop.Close()
	var options []option
	if c.RootPods {
		// Root in a pod has no right to root's last two percent; programs with
		// CAP_SYS_RESOURCE, such as the host's, have it in any case.
		options = append(options, option{"resuid", foreignID})
	}
	if mount, err = mountLoop(loop.Name(), options); err != nil {
		return nil, fmt.Errorf("mount %s: %w (if it is damaged, stop the cluster and call: e2fsck -f %[1]s)", image,
			err)
	}
	return mount, nil
}

// makeDisk makes a disk unless it exists.
func makeDisk(ctx context.Context, image string, m Machine, c Spec) error {
	st, err := os.Stat(image)
	if err == nil {
		if c.Disk != 0 && c.Disk < st.Size() {
			return fmt.Errorf("it has %d MiB and cannot shrink to %d MiB: choose --disk %dMi or more",
				st.Size()>>20, c.Disk>>20, st.Size()>>20)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	size := c.Disk
	if size == 0 {
		size = diskSize(m, c.Hosts)
	}
	unfinished := image + ".new"
	f, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	// The last two percent are root's.
	if err := makeFileSystem(ctx, unfinished, "2"); err != nil {
		return err
	}
	return os.Rename(unfinished, image)
}

// makeFileSystem makes the file system of a file that reads as zeros, so that no block needs clearing. Only root has
// the given percentage of it.
func makeFileSystem(ctx context.Context, image, percentOfRoot string) error {
	out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-b", strconv.Itoa(blockBytes), "-m", percentOfRoot,
		"-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1", image).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return nil
}

// lockDisk opens the file of a disk. Its lock lives as long as a loop device has the file:
// two mounts of one disk would destroy it.
func lockDisk(ctx context.Context, image string) (*os.File, error) {
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := awaitLock(ctx, f); err != nil {
		return nil, errors.Join(fmt.Errorf("a former run of the host still has it: %w", err), f.Close())
	}
	return f, nil
}

// awaitLock locks the file of a disk, which the kernel frees some time after the last mount is gone.
func awaitLock(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, freeLimit)
	defer cancel()
	for {
		if ok, err := durable.LockOpen(f); ok || err != nil {
			return err
		}
		select {
		case <-time.After(freeEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// attachLoop gives a file to a free loop device, with additional flags (LO_FLAGS_…).
func attachLoop(f *os.File, flags uint32) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: load the kernel module loop (`modprobe loop`); a container needs --privileged",
			err)
	}
	defer control.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		name := "/dev/loop" + strconv.Itoa(n)
		// A container's /dev has only the devices of the time when it was made.
		err = unix.Mknod(name, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(n))))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("make %s: %w", name, err)
		}
		loop, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &unix.LoopConfig{Fd: uint32(f.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | flags}})
		if err == nil {
			return loop, nil
		}
		_ = loop.Close() // it has no file
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("configure %s: %w", name, err)
		}
		// Another program has taken it meanwhile.
	}
}

// foreignID is a user ID that no account has.
const foreignID = "2147483646"

// option is a mount option, a flag if the value is "".
type option struct{ key, value string }

// mountLoop mounts a disk without a place, with additional options.
func mountLoop(device string, options []option) (*os.File, error) {
	fd, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	options = append([]option{
		{"source", device},
		// If the machine's disk has no room for a file's new content, the kernel must not commit the file's new
		// size and name: it would read as zeros, and the content before is gone.
		{"data_err", "abort"},
		{"errors", "remount-ro"},
		// Unwritten parts of the file read as zeros, so inode tables are clear.
		{"noinit_itable", ""},
		// The reported size is the disk's size, including the file system's
		// overhead.
		{"minixdf", ""},
	}, options...)
	for _, s := range options {
		if s.value == "" {
			err = unix.FsconfigSetFlag(fd, s.key)
		} else {
			err = unix.FsconfigSetString(fd, s.key, s.value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.key, err)
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, err
	}
	m, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(m), device), nil
}

// tendDisk gives the space of deleted files back to the machine's disk, from time to time, until the context ends. It
// returns an error if the file system that has dir cannot be written any more.
func tendDisk(ctx context.Context, dir string, log *slog.Logger) error {
	for warned := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tendEvery):
		}
		if err := tryWrite(dir); err != nil {
			return fmt.Errorf("the host's disk cannot be written: %w: the host is started again", err)
		}
		if err := trim(dir); err != nil && !warned {
			log.Warn("space of deleted files is not given back to the machine", logkey.Error, err)
			warned = true
		}
	}
}

// tryWrite returns an error if the file system that has dir cannot be written. The kernel refuses all changes after a
// write error (errors=remount-ro); the mount's flags show it in some versions only.
func tryWrite(dir string) error {
	now := time.Now()
	return os.Chtimes(dir, now, now)
}

// trim gives the space of deleted files of the file system that has dir back to the machine's disk. The mount option
// discard would do so at once, and also if the deletion then cannot be committed: a file that could not be replaced
// would have lost its content.
func trim(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	// linux/fs.h: _IOWR('X', 121, struct fstrim_range)
	const fitrim = 0xc0185879
	whole := struct{ start, length, least uint64 }{length: math.MaxUint64}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fitrim, uintptr(unsafe.Pointer(&whole)))
	if errno != 0 {
		return os.NewSyscallError("ioctl FITRIM", errno)
	}
	return nil
}

// sizeOfDisk returns the size of a mounted disk, in bytes.
func sizeOfDisk(mount *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(mount.Fd()), &st); err != nil {
		return 0, fmt.Errorf("read size of %s: %w", mount.Name(), err)
	}
	return int64(st.Blocks) * st.Bsize, nil
}

// repair checks the file system of a disk that its last host did not unmount, as a machine does when it boots.
func repair(ctx context.Context, f *os.File) error {
	// s_feature_incompat: Documentation/filesystems/ext4/super.rst.
	const recover = 0x4 // EXT4_FEATURE_INCOMPAT_RECOVER: the journal has entries
	var features [4]byte
	if _, err := f.ReadAt(features[:], 1024+0x60); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(features[:])&recover == 0 {
		return nil
	}
	return check(ctx, f)
}

// check checks and repairs a file system that is not mounted.
func check(ctx context.Context, f *os.File, flags ...string) error {
	out, err := exec.CommandContext(ctx, "e2fsck", append(flags, "-p", f.Name())...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return nil // something was corrected (e2fsck(8))
	}
	if err != nil {
		return fmt.Errorf("e2fsck: %w: %s", err, out)
	}
	return nil
}

// grow enlarges the file system of a disk to the configured size. It is not mounted: the
// kernel grows a mounted one only with CAP_SYS_RESOURCE.
func grow(ctx context.Context, f *os.File, size int64) error {
	// s_blocks_count_lo of the superblock: Documentation/filesystems/ext4/super.rst.
	var blocks [4]byte
	if _, err := f.ReadAt(blocks[:], 1024+4); err != nil {
		return err
	}
	if have := int64(binary.LittleEndian.Uint32(blocks[:])) * blockBytes; have+blockBytes > size {
		return nil
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := check(ctx, f, "-f"); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "resize2fs", f.Name()).CombinedOutput(); err != nil {
		return fmt.Errorf("grow to %d MiB: resize2fs: %w: %s", size>>20, err, out)
	}
	return nil
}

// TakeDisk mounts the host's disk below its directory.
// Preconditions: the process is alone in its mount namespace.
func TakeDisk(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate mounts: %w", err)
	}
	err := unix.MoveMount(fdDisk, "", unix.AT_FDCWD, Disk(dir), unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mount the host's disk: %w", err)
	}
	return unix.Close(fdDisk)
}

// MoveIn moves directories that an earlier version had in a host's directory, on the machine's disk, onto
// the host's own disk. A move that was interrupted begins again; it removes no file before its end.
func MoveIn(ctx context.Context, dir string, names ...string) error {
	for _, name := range names {
		if err := moveIn(ctx, filepath.Join(dir, name), filepath.Join(Disk(dir), name)); err != nil {
			return err
		}
	}
	return nil
}

func moveIn(ctx context.Context, from, to string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := os.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		unfinished := to + ".new"
		if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(filepath.Dir(to), 0o700)); err != nil {
			return fmt.Errorf("move %s onto the host's disk: %w", from, err)
		}
		// -a keeps owners, holes and the marks of overlayfs.
		out, err := exec.CommandContext(ctx, "cp", "-a", "--sparse=auto", from, unfinished).CombinedOutput()
		if err != nil {
			return fmt.Errorf("move %s onto the host's disk: %w: %s: nothing is lost; if there is no space, choose a "+
				"larger --disk", from, err, out)
		}
		unix.Sync()
		if err := os.Rename(unfinished, to); err != nil {
			return fmt.Errorf("move %s onto the host's disk: %w", from, err)
		}
		unix.Sync()
	} else if err != nil {
		return err
	}
	return os.RemoveAll(from)
}

// shortOfSpace reports when the machine's disk becomes too full for a host to run; dir lies on it.
func shortOfSpace(ctx context.Context, dir string) <-chan error {
	short := make(chan error, 1)
	go func() {
		for {
			if err := CheckSpace(dir); err != nil {
				short <- err
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(machineEvery):
			}
		}
	}()
	return short
}

// CheckSpace returns an error if the machine's disk is too full for a host to run.
func CheckSpace(dir string) error {
	m, err := freeBytes(dir)
	if err != nil || m >= leastFree {
		return err
	}
	return fmt.Errorf("the machine's disk has only %d MiB left below %s: %w: free %d MiB, and the host starts again "+
		"by itself", m>>20, dir, unix.ENOSPC, leastFree>>20)
}
