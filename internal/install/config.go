// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// Defaults of a Config.
const (
	DefaultNamespace = inventory.Namespace
	// DefaultReplicas: one may be down while the other answers.
	DefaultReplicas int32 = 2
)

// maxReplicas bounds what is surely a slip: every replica watches all pods.
const maxReplicas = 32

// Config says what is installed. The names in JSON are those of the chart's
// values.
type Config struct {
	// Namespace holds everything; "" means mullion-system. A release of the chart
	// has its own word for it.
	Namespace string `json:"-"`
	// Image is the reference of the manager's image. It must be set.
	Image string `json:"image,omitempty"`
	// ImagePullSecrets are names of Secrets in Namespace; the kubelet pulls the
	// image with them.
	ImagePullSecrets []string `json:"imagePullSecrets,omitempty"`
	// Replicas is the number of managers; 0 means DefaultReplicas.
	Replicas int32 `json:"replicas,omitempty"`
	// WindowsTaint, KEY=VALUE:EFFECT, is put onto every Windows node; "" means none.
	WindowsTaint string `json:"windowsTaint,omitempty"`
	// RulesFailurePolicy is what becomes of an object when no manager answers:
	// Ignore, which is the default, or Fail.
	RulesFailurePolicy string `json:"rulesFailurePolicy,omitempty"`
	// ReadPullSecrets gives the manager the right to read Secrets of all
	// namespaces, so that it can ask private registries about images.
	ReadPullSecrets bool `json:"readPullSecrets,omitempty"`
	// NoRegistries keeps the manager from asking registries what images are for.
	NoRegistries bool `json:"noRegistries,omitempty"`
	// InsecureRegistries, HOST or HOST:PORT, may be asked over plain HTTP.
	InsecureRegistries []string `json:"insecureRegistries,omitempty"`
	// RegistryCerts is the name of a ConfigMap in Namespace, whose ca.crt holds the
	// authorities of registries; "" means the system's alone.
	RegistryCerts string `json:"registryCerts,omitempty"`
	// NoGMSA leaves GMSA to another webhook, and the definition of
	// GMSACredentialSpecs out.
	NoGMSA bool `json:"noGMSA,omitempty"`
	// GMSARandomHostname gives each pod with a GMSA a host name of its own.
	GMSARandomHostname bool `json:"gmsaRandomHostname,omitempty"`
}

func (c Config) withDefaults() Config {
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if c.Replicas == 0 {
		c.Replicas = DefaultReplicas
	}
	if c.RulesFailurePolicy == "" {
		c.RulesFailurePolicy = "Ignore"
	}
	return c
}

// Validate says all that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if why := validation.IsDNS1123Label(c.Namespace); len(why) > 0 {
		errs = append(errs, fmt.Errorf("namespace %q: %s", c.Namespace, strings.Join(why, "; ")))
	}
	if _, err := reference.ParseNormalizedNamed(c.Image); err != nil {
		errs = append(errs, fmt.Errorf("image %q: %w", c.Image, err))
	}
	for _, s := range c.ImagePullSecrets {
		if why := validation.IsDNS1123Subdomain(s); len(why) > 0 {
			errs = append(errs, fmt.Errorf("image pull secret %q: %s", s, strings.Join(why, "; ")))
		}
	}
	errs = append(errs, c.registries()...)
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		errs = append(errs, fmt.Errorf("replicas %d: want 1 to %d", c.Replicas, maxReplicas))
	}
	if c.WindowsTaint != "" {
		if _, err := policy.ParseWindowsTaint(c.WindowsTaint); err != nil {
			errs = append(errs, err)
		}
	}
	if !slices.Contains([]string{"Ignore", "Fail"}, c.RulesFailurePolicy) {
		errs = append(errs, fmt.Errorf("failure policy %q: want Ignore or Fail", c.RulesFailurePolicy))
	}
	if c.NoGMSA && c.GMSARandomHostname {
		errs = append(errs, errors.New("host names of pods with a GMSA are given by the webhook that is left out"))
	}
	return errors.Join(errs...)
}

// registries says what is wrong with what is said about registries.
func (c Config) registries() (errs []error) {
	for _, host := range c.InsecureRegistries {
		// Images are compared by the host that their references are read to have.
		ref, err := reference.ParseNormalizedNamed(host + "/image")
		if err != nil || reference.Domain(ref) != host || strings.Contains(host, "/") {
			errs = append(errs, fmt.Errorf("insecure registry %q: want HOST or HOST:PORT as in the names of images, such as registry.example:5000", host))
		}
	}
	if c.RegistryCerts != "" {
		if why := validation.IsDNS1123Subdomain(c.RegistryCerts); len(why) > 0 {
			errs = append(errs, fmt.Errorf("ConfigMap of registries' authorities %q: %s", c.RegistryCerts, strings.Join(why, "; ")))
		}
	}
	if c.NoRegistries && (len(c.InsecureRegistries) > 0 || c.RegistryCerts != "" || c.ReadPullSecrets) {
		errs = append(errs, errors.New("how registries are asked is said, and that none is: leave one of them out"))
	}
	return errs
}

// repository is the image's name without a registry: where it is pulled from is
// the choice of who installs.
const repository = "mullion/mullion"

// release is what git describe says of a tagged commit.
var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.?[0-9]+)?$`)

// DefaultImage is the image of a version of mullion; published is false for a
// development build, whose image only exists where somebody made it.
func DefaultImage(version string) (image string, published bool) {
	return repository + ":" + version, release.MatchString(version) && version != "v0.0.0"
}
