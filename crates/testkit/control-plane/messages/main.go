// Command messages prints how the kinds that Kubernetes' typed clients write look in protobuf, one line a
// message: its name, then its fields as `number:jsonName:type`, with `?` where an empty value is left out.
// A field without a name is part of the object around it.
//
//	go run ./messages > ../src/embedded/protobuf/messages.txt
package main

import (
	"fmt"
	"path"
	"reflect"
	"sort"
	"strings"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	devices "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What requests carry, by the apiVersion and kind that their envelope names.
var kinds = []struct {
	apiVersion string
	objects    []any
}{
	{"v1", []any{
		core.Binding{}, core.ConfigMap{}, core.Event{}, core.Namespace{}, core.Node{}, core.Pod{},
		core.ReplicationController{}, core.ServiceAccount{}, meta.DeleteOptions{},
	}},
	{"apps/v1", []any{apps.DaemonSet{}, apps.Deployment{}, apps.ReplicaSet{}, apps.StatefulSet{}}},
	{"authentication.k8s.io/v1", []any{authentication.SelfSubjectReview{}, authentication.TokenRequest{}}},
	{"authorization.k8s.io/v1", []any{authorization.SelfSubjectAccessReview{}}},
	{"autoscaling/v1", []any{autoscaling.Scale{}}},
	{"batch/v1", []any{batch.Job{}}},
	{"coordination.k8s.io/v1", []any{coordination.Lease{}}},
	{"events.k8s.io/v1", []any{events.Event{}}},
	{"policy/v1", []any{policy.Eviction{}, policy.PodDisruptionBudget{}}},
	{"rbac.authorization.k8s.io/v1", []any{
		rbac.ClusterRole{}, rbac.ClusterRoleBinding{}, rbac.Role{}, rbac.RoleBinding{},
	}},
	{"resource.k8s.io/v1", []any{
		devices.DeviceClass{}, devices.ResourceClaim{}, devices.ResourceClaimTemplate{}, devices.ResourceSlice{},
	}},
}

// Messages whose JSON is not an object of their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():            "time",
	reflect.TypeFor[meta.MicroTime]():       "microTime",
	reflect.TypeFor[meta.FieldsV1]():        "raw",
	reflect.TypeFor[runtime.RawExtension](): "raw",
	reflect.TypeFor[intstr.IntOrString]():   "intOrString",
	reflect.TypeFor[resource.Quantity]():    "quantity",
}

var messages = map[string]string{}

func main() {
	for _, group := range kinds {
		for _, object := range group.objects {
			t := reflect.TypeOf(object)
			fmt.Printf("= %s %s %s\n", group.apiVersion, t.Name(), typeOf(t))
		}
	}
	names := make([]string, 0, len(messages))
	for name := range messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Println(name + messages[name])
	}
}

func typeOf(t reflect.Type) string {
	if name, found := special[t]; found {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64:
		return "int"
	case reflect.Float64:
		return "float"
	case reflect.Map:
		return "map " + typeOf(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if _, isMessage := reflect.PointerTo(t).MethodByName("Marshal"); isMessage {
			return "items"
		}
		return "list " + typeOf(t.Elem())
	case reflect.Struct:
		name := path.Base(path.Dir(t.PkgPath())) + "." + t.Name()
		if _, known := messages[name]; !known {
			messages[name] = "" // It may contain itself.
			messages[name] = fieldsOf(t)
		}
		return name
	}
	panic(t.String())
}

func fieldsOf(t reflect.Type) string {
	var fields strings.Builder
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue // Never on the wire.
		}
		json := strings.Split(field.Tag.Get("json"), ",")
		mark := ""
		zero := strings.Join(json[1:], ",")
		isValue := field.Type.Kind() != reflect.Pointer
		if isValue && (strings.Contains(zero, "omitzero") ||
			strings.Contains(zero, "omitempty") && field.Type.Kind() != reflect.Struct) {
			mark = "?"
		}
		fmt.Fprintf(&fields, "; %s:%s%s:%s", tag[1], json[0], mark, typeOf(field.Type))
	}
	return fields.String()
}
