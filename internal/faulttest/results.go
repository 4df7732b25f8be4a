package faulttest

import "slices"

// The VkResults that are injected. Positive ones are not errors.
const (
	notReady             = 1
	timeout              = 2
	incomplete           = 5
	outOfHostMemory      = -1
	outOfDeviceMemory    = -2
	initializationFailed = -3
	deviceLost           = -4
	memoryMapFailed      = -5
	layerNotPresent      = -6
	extensionNotPresent  = -7
	featureNotPresent    = -8
	tooManyObjects       = -10
	fragmentedPool       = -12
	unknownError         = -13
	invalidShader        = -1000012000
	outOfPoolMemory      = -1000069000
)

// results lists what a function may return, the likeliest first, unless it is
// only out of host or device memory. Any function may also return unknownError.
var results = map[string][]int32{
	"vkCreateInstance":                     {initializationFailed, outOfHostMemory, extensionNotPresent},
	"vkCreateDevice":                       {outOfHostMemory, initializationFailed, deviceLost, featureNotPresent, tooManyObjects},
	"vkEnumeratePhysicalDevices":           {outOfHostMemory, initializationFailed, incomplete},
	"vkEnumerateDeviceExtensionProperties": {outOfHostMemory, layerNotPresent, incomplete},
	"vkCreateShaderModule":                 {outOfHostMemory, outOfDeviceMemory, invalidShader},
	"vkCreateComputePipelines":             {outOfHostMemory, outOfDeviceMemory, invalidShader},
	"vkGetPipelineCacheData":               {outOfHostMemory, incomplete},
	"vkAllocateMemory":                     {outOfDeviceMemory, outOfHostMemory, tooManyObjects},
	"vkMapMemory":                          {memoryMapFailed, outOfHostMemory},
	"vkAllocateDescriptorSets":             {outOfPoolMemory, fragmentedPool, outOfHostMemory},
	"vkQueueSubmit":                        {outOfDeviceMemory, deviceLost, outOfHostMemory},
	"vkWaitSemaphores":                     {outOfHostMemory, deviceLost, timeout},
	"vkGetSemaphoreCounterValue":           {outOfHostMemory, deviceLost},
	"vkGetQueryPoolResults":                {outOfHostMemory, deviceLost, notReady},
	"vkDeviceWaitIdle":                     {outOfHostMemory, deviceLost},
	"vkQueueWaitIdle":                      {outOfHostMemory, deviceLost},
	"vkGetCalibratedTimestampsEXT":         {outOfHostMemory},
}

// Results lists the VkResults that a function is made to return, the likeliest first.
func Results(function string) []int32 {
	list := results[function]
	if list == nil {
		list = []int32{outOfHostMemory, outOfDeviceMemory}
	}
	return append(slices.Clone(list), unknownError)
}
