// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"cmp"
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
	// DefaultReplicas lets one manager be down while the other answers.
	DefaultReplicas int32 = 2
)

// maxReplicas catches typing errors: every replica watches all pods.
const maxReplicas = 32

// Config describes an installation. The JSON names equal the names of the
// chart's values.
type Config struct {
	// Namespace contains all objects; "" means mullion-system. For the chart,
	// Helm sets the namespace.
	Namespace string `json:"-"`
	// Image is the reference of the manager's image. It must be set.
	Image string `json:"image,omitempty"`
	// ImagePullSecrets are names of Secrets in Namespace that the kubelet uses
	// to pull the image.
	ImagePullSecrets []string `json:"imagePullSecrets,omitempty"`
	// Replicas is the number of managers; 0 means DefaultReplicas.
	Replicas int32 `json:"replicas,omitempty"`
	// WindowsTaint, KEY=VALUE:EFFECT, is added to every Windows node; "" means
	// no taint.
	WindowsTaint string `json:"windowsTaint,omitempty"`
	// Admission is the treatment of findings in namespaces without labels for it:
	// warn, the default, refuses no object that ran before; enforce refuses
	// objects that cannot run; off disables the rules.
	Admission policy.Admission `json:"admission,omitempty"`
	// RulesFailurePolicy applies to objects while no manager answers: Ignore,
	// which is the default, or Fail.
	RulesFailurePolicy string `json:"rulesFailurePolicy,omitempty"`
	// ReadPullSecrets gives the manager the right to read Secrets of all
	// namespaces, so that it can query private registries about images.
	ReadPullSecrets bool `json:"readPullSecrets,omitempty"`
	// NoRegistries keeps the manager from querying registries for the platforms
	// of images.
	NoRegistries bool `json:"noRegistries,omitempty"`
	// InsecureRegistries, HOST or HOST:PORT, may be queried over plain HTTP.
	InsecureRegistries []string `json:"insecureRegistries,omitempty"`
	// RegistryCerts is the name of a ConfigMap in Namespace, whose ca.crt holds
	// certificate authorities for registries; "" means only the system's.
	RegistryCerts string `json:"registryCerts,omitempty"`
	// NoGMSA leaves GMSA to another webhook and omits the definition of
	// GMSACredentialSpecs.
	NoGMSA bool `json:"noGMSA,omitempty"`
	// GMSARandomHostname gives each pod with a GMSA its own host name.
	GMSARandomHostname bool `json:"gmsaRandomHostname,omitempty"`
	// Storage adds the StorageClass mullion-local, for nodes that run mullion's agent.
	Storage bool `json:"storage,omitempty"`
}

func (c Config) withDefaults() Config {
	c.Namespace = cmp.Or(c.Namespace, DefaultNamespace)
	c.Replicas = cmp.Or(c.Replicas, DefaultReplicas)
	c.Admission = cmp.Or(c.Admission, policy.AdmissionWarn)
	c.RulesFailurePolicy = cmp.Or(c.RulesFailurePolicy, "Ignore")
	return c
}

// Validate returns all errors in the configuration.
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
	if err := c.Admission.Validate(); err != nil {
		errs = append(errs, err)
	}
	if !slices.Contains([]string{"Ignore", "Fail"}, c.RulesFailurePolicy) {
		errs = append(errs, fmt.Errorf("failure policy %q: want Ignore or Fail", c.RulesFailurePolicy))
	}
	if c.NoGMSA && c.GMSARandomHostname {
		errs = append(errs, errors.New("random host names for pods with a GMSA need the GMSA webhook, which is left "+
			"out"))
	}
	return errors.Join(errs...)
}

// registries returns the errors in the settings for registries.
func (c Config) registries() (errs []error) {
	for _, host := range c.InsecureRegistries {
		// Hosts are compared with the hosts of parsed image references.
		ref, err := reference.ParseNormalizedNamed(host + "/image")
		if err != nil || reference.Domain(ref) != host || strings.Contains(host, "/") {
			errs = append(errs,
				fmt.Errorf("insecure registry %q: want HOST or HOST:PORT as in the names of images, such as "+
					"registry.example:5000", host))
		}
	}
	if c.RegistryCerts != "" {
		if why := validation.IsDNS1123Subdomain(c.RegistryCerts); len(why) > 0 {
			errs = append(errs, fmt.Errorf("ConfigMap of registries' authorities %q: %s", c.RegistryCerts,
				strings.Join(why, "; ")))
		}
	}
	if c.NoRegistries && (len(c.InsecureRegistries) > 0 || c.RegistryCerts != "" || c.ReadPullSecrets) {
		errs = append(errs, errors.New("registries are disabled, but settings for them are given: leave one of "+
			"them out"))
	}
	return errs
}

// repository is the image's name without a registry: the user chooses where it
// is pulled from.
const repository = "mullion/mullion"

// release matches the output of git describe for a tagged commit.
var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.?[0-9]+)?$`)

// DefaultImage returns the image of a version of mullion; published is false
// for a development build, whose image exists only where it was built.
func DefaultImage(version string) (image string, published bool) {
	return repository + ":" + version, release.MatchString(version) && version != "v0.0.0"
}
