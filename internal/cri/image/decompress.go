// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// zstdWindowBytes bounds the memory that a zstd frame may require. 128 MiB is the
// window of zstd --long=27, the most that decoders accept by default.
const zstdWindowBytes = 128 << 20

// decompress looks at the first bytes and not at the media type, which archives
// and some registries get wrong.
func decompress(r io.Reader) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(r, 1<<20)
	magic, err := br.Peek(4)
	if err != nil && len(magic) < 2 {
		// Shorter than any compressed form; an empty tar at most.
		return io.NopCloser(br), nil
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("%w: gzip: %w", ErrInvalid, err)
		}
		return z, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowBytes))
		if err != nil {
			return nil, fmt.Errorf("%w: zstd: %w", ErrInvalid, err)
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(br), nil
}
