// Writes kubernetes.txt: what objects of Kubernetes look like, in JSON and in protobuf. `cargo xtask schema` runs it.
//
// Two sources, both of the release that the control plane of the tests is built from: the Go types say what is written
// and under which number, the OpenAPI documents how lists and maps merge, and the defaults. The reader, parse.rs,
// describes the form of the file.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
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
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type kinds []struct {
	apiVersion string
	objects    []any
}

// What is stored. Lists are alike, so they are not here.
var stored = kinds{
	{"v1", []any{
		core.ConfigMap{}, core.Event{}, core.Namespace{}, core.Node{}, core.Pod{}, core.ReplicationController{},
		core.ServiceAccount{},
	}},
	{"apiextensions.k8s.io/v1", []any{apiextensions.CustomResourceDefinition{}}},
	{"apps/v1", []any{apps.DaemonSet{}, apps.Deployment{}, apps.ReplicaSet{}, apps.StatefulSet{}}},
	{"batch/v1", []any{batch.Job{}}},
	{"coordination.k8s.io/v1", []any{coordination.Lease{}}},
	{"events.k8s.io/v1", []any{events.Event{}}},
	{"policy/v1", []any{policy.PodDisruptionBudget{}}},
	{"rbac.authorization.k8s.io/v1", []any{
		rbac.ClusterRole{}, rbac.ClusterRoleBinding{}, rbac.Role{}, rbac.RoleBinding{},
	}},
	{"resource.k8s.io/v1", []any{
		resource.DeviceClass{}, resource.ResourceClaim{}, resource.ResourceClaimTemplate{}, resource.ResourceSlice{},
	}},
	{"scheduling.k8s.io/v1beta1", []any{scheduling.PodGroup{}}},
}

// What is only sent: these have a message, and no schema.
var sent = kinds{
	{"v1", []any{core.Binding{}, meta.DeleteOptions{}, meta.Status{}}},
	{"autoscaling/v1", []any{autoscaling.Scale{}}},
	{"meta.k8s.io/v1", []any{meta.PartialObjectMetadata{}, meta.ListMeta{}}},
	{"policy/v1", []any{policy.Eviction{}}},
}

// Types with a form of their own.
var special = map[string]string{
	"meta.v1.Time":            "time",
	"meta.v1.MicroTime":       "micro-time",
	"api.resource.Quantity":   "quantity",
	"util.intstr.IntOrString": "int-or-string",
}

// A type as OpenAPI has it.
type schema struct {
	Items      *schema           `json:"items"`
	Values     *schema           `json:"additionalProperties"`
	Properties map[string]schema `json:"properties"`
	Default    any               `json:"default"`
	ListType   string            `json:"x-kubernetes-list-type"`
	ListKeys   []string          `json:"x-kubernetes-list-map-keys"`
	MapType    string            `json:"x-kubernetes-map-type"`
	Merge      string            `json:"x-kubernetes-patch-strategy"`
	MergeKey   string            `json:"x-kubernetes-patch-merge-key"`
}

var (
	definitions = map[string]schema{}
	// The lines of each struct.
	structs = map[string]string{}
)

func main() {
	found, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes").Output()
	check(err)
	var module struct{ Dir, Version string }
	check(json.Unmarshal(found, &module))
	readDefinitions(module.Dir)
	fmt.Printf("# Kubernetes %s. Written by kubernetes.go: `cargo xtask schema`.\n", module.Version)
	write("kind", stored)
	write("sent", sent)
	for _, name := range slices.Sorted(maps.Keys(structs)) {
		fmt.Printf("\n%s\n%s", name, structs[name])
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func readDefinitions(module string) {
	files, err := filepath.Glob(filepath.Join(module, "api/openapi-spec/v3/*.json"))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		var document struct {
			Components struct {
				Schemas map[string]schema `json:"schemas"`
			} `json:"components"`
		}
		check(json.Unmarshal(text, &document))
		maps.Copy(definitions, document.Components.Schemas)
	}
}

func write(word string, kinds kinds) {
	for _, group := range kinds {
		for _, object := range group.objects {
			of := reflect.TypeOf(object)
			fmt.Printf("%s %s %s %s\n", word, group.apiVersion, of.Name(), structure(of, schema{}))
		}
	}
}

// `core.v1.Pod`.
func short(of reflect.Type) string {
	path := of.PkgPath()
	for _, prefix := range []string{
		"k8s.io/apiextensions-apiserver/pkg/apis/", "k8s.io/apimachinery/pkg/apis/", "k8s.io/apimachinery/pkg/", "k8s.io/api/",
	} {
		path = strings.TrimPrefix(path, prefix)
	}
	return strings.ReplaceAll(path, "/", ".") + "." + of.Name()
}

func definition(of reflect.Type) (schema, bool) {
	path := strings.Replace(of.PkgPath(), "k8s.io/", "io.k8s.", 1)
	found, is := definitions[strings.ReplaceAll(path, "/", ".")+"."+of.Name()]
	return found, is
}

// Keeps the lines of a struct; its name in the file. `outer` is the struct around it, in whose definition its fields
// are if it has none.
func structure(of reflect.Type, outer schema) string {
	name := short(of)
	if _, known := structs[name]; known {
		return name
	}
	structs[name] = ""
	in, is := definition(of)
	if !is {
		in = outer
	}
	type field struct {
		number int
		text   string
	}
	var fields []field
	for i := range of.NumField() {
		declared := of.Field(i)
		number := number(of, declared)
		fields = append(fields, field{number, fmt.Sprintf(" %d %s\n", number, describe(declared, in))})
	}
	slices.SortStableFunc(fields, func(a, b field) int { return a.number - b.number })
	for _, field := range fields {
		structs[name] += field.text
	}
	return name
}

// The number of a field in protobuf; 0 where it is not in it. The embedded server has definitions in JSON alone.
func number(of reflect.Type, declared reflect.StructField) int {
	typeMeta := reflect.TypeFor[meta.TypeMeta]()
	if of == typeMeta || declared.Type == typeMeta || of.PkgPath() == reflect.TypeFor[apiextensions.JSON]().PkgPath() {
		return 0
	}
	var number int
	_, tag, _ := strings.Cut(declared.Tag.Get("protobuf"), ",")
	if _, err := fmt.Sscanf(tag, "%d,", &number); err != nil {
		log.Fatalf("%s.%s has no number: %v", short(of), declared.Name, err)
	}
	return number
}

// A field by its name in JSON, its type, whether it is always written, and its default.
func describe(declared reflect.StructField, in schema) string {
	options := strings.Split(declared.Tag.Get("json"), ",")
	if options[0] == "" {
		// Its fields are those of the struct around it in JSON.
		return "- " + structure(declared.Type, in)
	}
	property := in.Properties[options[0]]
	text := options[0] + " " + kind(declared.Type, property)
	// Go does not know an empty struct.
	omitted := declared.Type.Kind() != reflect.Struct && slices.Contains(options, "omitempty")
	if !omitted && !slices.Contains(options, "omitzero") {
		text += " !"
	}
	value, err := json.Marshal(property.Default)
	check(err)
	if !slices.Contains([]string{`""`, "0", "false", "{}", "null"}, string(value)) {
		text += " =" + string(value)
	}
	return text
}

// The type of a value, in the form of the file.
func kind(of reflect.Type, property schema) string {
	switch of.Kind() {
	case reflect.Pointer:
		return "*" + kind(of.Elem(), property)
	case reflect.Map:
		return "<" + kind(of.Elem(), or(property.Values)) + ">" + atomic(property)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if _, own := reflect.PointerTo(of).MethodByName("Unmarshal"); own {
			log.Fatal(short(of), " has an encoding of its own")
		}
		text := "[" + kind(of.Elem(), or(property.Items)) + "]"
		if property.ListType == "map" || property.ListType == "set" {
			text += "{" + strings.Join(property.ListKeys, ",") + "}"
		}
		if slices.Contains(strings.Split(property.Merge, ","), "merge") {
			text += "+" + property.MergeKey
		}
		return text
	case reflect.Struct:
		if named, is := special[short(of)]; is {
			return named
		}
		definition, is := definition(of)
		if is && definition.Properties == nil && of.NumField() > 0 {
			return "any"
		}
		return structure(of, schema{}) + atomic(property, definition)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return of.Kind().String()
	default:
		panic(of.String())
	}
}

func or(of *schema) (found schema) {
	if of != nil {
		found = *of
	}
	return
}

func atomic(of ...schema) string {
	if slices.ContainsFunc(of, func(of schema) bool { return of.MapType == "atomic" }) {
		return "~"
	}
	return ""
}
