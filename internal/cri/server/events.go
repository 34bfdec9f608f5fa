// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"sync"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// GetContainerEvents sends the events of containers and sandboxes from now on,
// until the client leaves.
func (s *Server) GetContainerEvents(_ *runtime.GetEventsRequest,
	out grpc.ServerStreamingServer[runtime.ContainerEventResponse]) error {
	events, leave := s.events.join()
	defer leave()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return nil
			}
			if err := out.Send(e); err != nil {
				return err
			}
		case <-out.Context().Done():
			return nil
		}
	}
}

// publish sends an event to the clients of GetContainerEvents. As in containerd the
// event carries the whole state of the pod, so a client need not request it.
func (s *Server) publish(sandboxID, id string, kind runtime.ContainerEventType) {
	if !s.events.wanted() {
		return
	}
	e := &runtime.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: now()}
	if sb, err := s.store.Sandboxes.Get(sandboxID); err == nil {
		e.PodSandboxStatus = sandboxStatus(sb)
	}
	for _, c := range s.containersOf(sandboxID) {
		if c.Made != 0 {
			e.ContainersStatuses = append(e.ContainersStatuses, s.containerStatus(c))
		}
	}
	s.events.send(e)
}

// broadcast sends each event to all listeners.
type broadcast struct {
	mu        sync.Mutex
	closed    bool                                              // guarded by mu
	listeners map[chan *runtime.ContainerEventResponse]struct{} // guarded by mu
}

// queuedEvents is how many events a listener may fall behind. containerd buffers
// 1000 in all; a slower client is disconnected, and lists again when it returns.
const queuedEvents = 1000

func (b *broadcast) join() (events <-chan *runtime.ContainerEventResponse, leave func()) {
	ch := make(chan *runtime.ContainerEventResponse, queuedEvents)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		close(ch)
		return ch, func() {}
	}
	if b.listeners == nil {
		b.listeners = map[chan *runtime.ContainerEventResponse]struct{}{}
	}
	b.listeners[ch] = struct{}{}
	return ch, func() { b.drop(ch) }
}

func (b *broadcast) drop(ch chan *runtime.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listeners, ch)
}

func (b *broadcast) wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.listeners) > 0
}

func (b *broadcast) send(e *runtime.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.listeners {
		select {
		case ch <- e:
		default:
			delete(b.listeners, ch)
			close(ch)
		}
	}
}

// close ends all listeners.
func (b *broadcast) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for ch := range b.listeners {
		delete(b.listeners, ch)
		close(ch)
	}
}
