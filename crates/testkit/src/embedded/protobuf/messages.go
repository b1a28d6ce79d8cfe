// Writes messages.txt: the protobuf messages of the kinds that the embedded API server serves, as the Go types of
// Kubernetes have them in the tags that their generated.proto was made from, too. From the folder control-plane:
//
//	go run ../src/embedded/protobuf/messages.go > ../src/embedded/protobuf/messages.txt
package main

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1beta1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is encoded whole, by apiVersion. Lists are alike, so they are not here.
var kinds = []struct {
	apiVersion string
	objects    []any
}{
	{"v1", []any{
		core.Binding{}, core.ConfigMap{}, core.Event{}, core.Namespace{}, core.Node{}, core.Pod{},
		core.ReplicationController{}, core.ServiceAccount{}, meta.DeleteOptions{}, meta.Status{},
	}},
	{"apps/v1", []any{apps.DaemonSet{}, apps.Deployment{}, apps.ReplicaSet{}, apps.StatefulSet{}}},
	{"autoscaling/v1", []any{autoscaling.Scale{}}},
	{"batch/v1", []any{batch.Job{}}},
	{"coordination.k8s.io/v1", []any{coordination.Lease{}}},
	{"events.k8s.io/v1", []any{events.Event{}}},
	{"meta.k8s.io/v1", []any{meta.PartialObjectMetadata{}, meta.ListMeta{}}},
	{"policy/v1", []any{policy.Eviction{}, policy.PodDisruptionBudget{}}},
	{"rbac.authorization.k8s.io/v1", []any{
		rbac.ClusterRole{}, rbac.ClusterRoleBinding{}, rbac.Role{}, rbac.RoleBinding{},
	}},
	{"resource.k8s.io/v1", []any{
		resource.DeviceClass{}, resource.ResourceClaim{}, resource.ResourceClaimTemplate{}, resource.ResourceSlice{},
	}},
	{"scheduling.k8s.io/v1beta1", []any{scheduling.PodGroup{}}},
}

// Types with an encoding of their own.
var special = map[string]string{
	"meta.v1.Time":            "time",
	"meta.v1.MicroTime":       "micro-time",
	"meta.v1.FieldsV1":        "json",
	"runtime.RawExtension":    "json",
	"api.resource.Quantity":   "quantity",
	"util.intstr.IntOrString": "int-or-string",
}

var found = map[string]string{}

func main() {
	var text strings.Builder
	fmt.Fprintf(&text, "# Kubernetes %s. Written by messages.go beside it, from the Go types of k8s.io/api and k8s.io/apimachinery.\n", version())
	for _, group := range kinds {
		for _, object := range group.objects {
			of := reflect.TypeOf(object)
			fmt.Fprintf(&text, "kind %s %s %s\n", group.apiVersion, of.Name(), message(of))
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&text, "\n%s\n%s", name, found[name])
	}
	fmt.Print(text.String())
}

// The release of Kubernetes: that of the modules with its types is v0 instead of v1.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" {
			if module.Replace != nil {
				module = module.Replace
			}
			return "v1" + strings.TrimPrefix(module.Version, "v0")
		}
	}
	panic("no k8s.io/api")
}

// `core.v1.Pod`.
func short(of reflect.Type) string {
	path := of.PkgPath()
	for _, prefix := range []string{"k8s.io/apimachinery/pkg/apis/", "k8s.io/apimachinery/pkg/", "k8s.io/api/"} {
		path = strings.TrimPrefix(path, prefix)
	}
	return strings.ReplaceAll(path, "/", ".") + "." + of.Name()
}

func message(of reflect.Type) string {
	name := short(of)
	if named, is := special[name]; is {
		return named
	}
	if _, known := found[name]; known {
		return name
	}
	found[name] = ""
	type field struct {
		number int
		text   string
	}
	var fields []field
	for i := range of.NumField() {
		declared := of.Field(i)
		tag := strings.Split(declared.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		number, err := strconv.Atoi(tag[1])
		if err != nil {
			panic(err)
		}
		options := strings.Split(declared.Tag.Get("json"), ",")
		if options[0] == "" {
			// Its fields are those of the struct around it in JSON.
			options[0] = "-"
		}
		fields = append(fields, field{number, fmt.Sprintf(" %d %s %s\n", number, options[0], kind(declared.Type))})
	}
	if len(fields) == 0 && of.NumField() > 0 {
		panic(name + " has no tags")
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i].number < fields[j].number })
	for _, field := range fields {
		found[name] += field.text
	}
	return name
}

func kind(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return "*" + kind(of.Elem())
	case reflect.Map:
		return "<" + kind(of.Elem()) + ">"
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if _, own := reflect.PointerTo(of).MethodByName("Unmarshal"); own {
			panic(short(of) + " has an encoding of its own")
		}
		return "[" + kind(of.Elem()) + "]"
	case reflect.Struct:
		return message(of)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return of.Kind().String()
	default:
		panic(of.String())
	}
}
