// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package compile turns the intent for one emulated host into a Plan: the
// links, routes and sysctls of the host's network namespace, and one nftables
// table. It is pure: no I/O, no clock, no randomness, so that the same intent
// always gives the same bytes and goldens can be read by people.
//
// # Topology
//
// Each endpoint is connected to the host by a veth pair; there is no bridge. The
// host routes between them (a /32 per endpoint), answers ARP for everything
// else on the endpoint's subnet by proxy, and holds the gateway addresses
// itself. Traffic between two endpoints of one subnet therefore also passes the
// host's conntrack. A bridge would bypass it, and the reply of a service's
// backend to a client on the same switch would carry the wrong source.
//
// # Services
//
// A load balancer is not a chain but an entry in a map from its front end to a
// chain. The chain draws a random number below the number of backends into the
// packet mark; the front end and that number are the key of a second map, which
// holds the backends. The connection mark selects the source address:
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
// # Address families
//
// IPv4 is always there, IPv6 if the uplink has an address of it. Each family has
// its own sets and maps; the names of the IPv6 ones end with a 6.
//
// # Incremental work
//
// Compile takes the previous plan and reuses the results for unchanged objects;
// Diff returns the operations that turn one plan into another. Compile gives
// equal plans with and without a previous plan.
//
// # Fidelity
//
// docs/fidelity/netplane.md lists the differences from Windows' virtual switch.
package compile
