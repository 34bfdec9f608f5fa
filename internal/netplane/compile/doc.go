// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package compile turns the intent for one emulated host into a Plan: the
// links, routes and sysctls of the host's network namespace, and one nftables
// table. It is pure: no I/O, no clock, no randomness, so that the same intent
// always gives the same bytes and goldens can be read by people.
//
// # Topology
//
// Endpoints hang on the host by one veth pair each; there is no bridge. The
// host routes between them (a /32 per endpoint), answers ARP for everything
// else on the endpoint's subnet by proxy, and holds the gateway addresses
// itself. Two endpoints of one subnet therefore talk through the host's
// conntrack too, which a bridge would bypass: the reply of a service's backend
// to a client on the same switch would carry the wrong source.
//
// # Services
//
// A load balancer is not a chain but an entry in a map from its front end to
// the chain that draws a number below the count of its backends into the packet
// mark; the draw, with the front end, is the key of the second map, which holds
// the backends. The connection mark says which source address it shall get:
//
//	ip daddr . meta l4proto . th dport vmap @frontends          10.96.0.10 . udp . 53 : goto vip-3
//	chain vip-3: ct mark set 1
//	             meta mark set numgen random mod 3
//	             dnat ip to ip daddr . meta l4proto . th dport . meta mark map @backends
//	                                                            10.96.0.10 . udp . 53 . 0 : 10.244.1.5 . 53 …
//
// There is one such chain per distinct count, so the number of rules does not
// grow with the number of services, every backend is equally likely whatever
// the counts, and a change of one service changes its elements only.
//
// # Incremental work
//
// Compile takes the previous plan and re-uses what was made from unchanged
// objects; Diff turns two plans into the operations that lead from one to the
// other. Compile with and without a previous plan gives equal plans.
//
// # Fidelity
//
// docs/internals/netplane.md lists what differs from Windows' virtual switch.
package compile
